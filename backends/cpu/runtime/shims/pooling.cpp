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

// Calls body(position in the plane) for the positions of a window.
template <typename Body>
void for_each_position(const PoolingWindows& p, const PoolingWindow& w, const Body& body) {
  for (int64_t z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      const int64_t row = (z * p.in[1] + y) * p.in[2];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += w.step[2]) body(row + x);
    }
  }
}

// Calls body(plane of `in`, window, offset in the output) for all outputs.
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
void average(const PoolingCall& call, const T* in) {
  using Wide = slim::accumulate_t<T>;
  const PoolingWindows& p = call.windows;
  T* out = call.out.data_as<T>();
  for_each_output(p, in, [&](const T* plane, const PoolingWindow& w, int64_t to) {
    Wide sum = 0;
    int64_t inside = 0;
    for_each_position(p, w, [&](int64_t position) {
      sum += static_cast<Wide>(plane[position]);
      ++inside;
    });
    const int64_t count = p.divisor ? p.divisor : p.count_padding ? w.padded : inside;
    out[to] = static_cast<T>(inside == 0 ? Wide(0) : sum / static_cast<Wide>(count));
  });
}

template <typename T>
void maximum(const PoolingCall& call, const T* in) {
  using Wide = slim::accumulate_t<T>;
  const PoolingWindows& p = call.windows;
  T* out = call.out.data_as<T>();
  int64_t* indices = call.indices->data_as<int64_t>();
  for_each_output(p, in, [&](const T* plane, const PoolingWindow& w, int64_t to) {
    Wide held = std::is_integral_v<T> ? std::numeric_limits<Wide>::lowest()
                                      : -std::numeric_limits<Wide>::infinity();
    int64_t best = (w.begin[0] * p.in[1] + w.begin[1]) * p.in[2] + w.begin[2];
    for_each_position(p, w, [&](int64_t position) {
      const Wide found = plane[position];
      if (found > held || found != found) {
        held = found;
        best = position;
      }
    });
    out[to] = static_cast<T>(held);
    indices[to] = best;
  });
}

}  // namespace

Error pool(const PoolingCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, slim::contiguous_tensor(call.self));
  if (call.indices) {
    PTERON_DISPATCH_REAL(in->dtype(), T, maximum(call, in->data_as<const T>()); return Error::Ok);
  } else {
    PTERON_DISPATCH_FLOATING(in->dtype(), T, average(call, in->data_as<const T>());
                             return Error::Ok);
  }
  return aoti::no_kernel_for(call.self);
}

}  // namespace pteron::cpu
