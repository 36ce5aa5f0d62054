#include "pteron/backends/aoti/ops/pooling/pooling.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::PoolingCall;
using aoti::PoolingWindow;
using aoti::PoolingWindows;

// Calls body(plane of `in`, window, offset in the result) for all outputs.
template <typename T, typename Body>
void for_each_output(const PoolingWindows& p, const T* in, const Body& body) {
  const int64_t in_area = p.in[0] * p.in[1] * p.in[2], out_area = p.out[0] * p.out[1] * p.out[2];
  const int64_t grain = 16384 / std::max<int64_t>(in_area + out_area, 1) + 1;
  parallel_for(p.batch * p.channels, grain, [&](int64_t first, int64_t last) {
    for (int64_t plane = first; plane < last; ++plane) {
      const int64_t to =
          plane / p.channels * p.out_strides[0] + plane % p.channels * p.out_strides[1];
      int64_t at[3];
      for (at[0] = 0; at[0] < p.out[0]; ++at[0]) {
        for (at[1] = 0; at[1] < p.out[1]; ++at[1]) {
          for (at[2] = 0; at[2] < p.out[2]; ++at[2]) {
            body(in + plane * in_area, window_at(p, at[0], at[1], at[2]),
                 to + at[0] * p.out_strides[2] + at[1] * p.out_strides[3] +
                     at[2] * p.out_strides[4]);
          }
        }
      }
    }
  });
}

template <typename T>
void average(const PoolingWindows& p, const T* in, const PoolingCall& call) {
  T* out = call.out.data_as<T>();
  for_each_output(p, in, [&](const T* plane, const PoolingWindow& w, int64_t to) {
    out[to] = static_cast<T>(aoti::average_in<slim::accumulate_t<T>>(p, w, plane));
  });
}

template <typename T>
void maximum(const PoolingWindows& p, const T* in, const PoolingCall& call) {
  using Wide = slim::accumulate_t<T>;
  const Wide least = std::is_integral_v<T> ? std::numeric_limits<Wide>::lowest()
                                           : -std::numeric_limits<Wide>::infinity();
  T* out = call.out.data_as<T>();
  int64_t* indices = call.indices->data_as<int64_t>();
  for_each_output(p, in, [&](const T* plane, const PoolingWindow& w, int64_t to) {
    int64_t index;
    out[to] = static_cast<T>(aoti::maximum_in(p, w, plane, least, index));
    indices[to] = index;
  });
}

}  // namespace

Error pool(const PoolingCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, slim::contiguous_tensor(call.self));
  PoolingWindows p = call.windows;
  p.in_strides[2] = p.in[1] * p.in[2];
  p.in_strides[3] = p.in[2];
  p.in_strides[4] = 1;
  if (call.indices) {
    PTERON_DISPATCH_REAL(in->dtype(), T, maximum(p, in->data_as<const T>(), call);
                         return Error::Ok);
  } else {
    PTERON_DISPATCH_FLOATING(in->dtype(), T, average(p, in->data_as<const T>(), call);
                             return Error::Ok);
  }
  return aoti::no_kernel_for(call.self);
}

}  // namespace pteron::cpu
