#include <cmath>

#include "pteron/backends/aoti/ops/pooling/pooling.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

using aoti::PoolingWindow;
using aoti::PoolingWindows;

// Calls body(window, offset of the plane in x, offset of the result in y) for this thread's
// outputs, neighbouring threads at neighbouring elements of y.
template <typename Body>
__device__ void for_each_output(const PoolingWindows& p, int64_t count, const Body& body) {
  const bool channels_inside = p.out_strides[1] < p.out_strides[4];
  for_each_item(count, [&](int64_t i) {
    int64_t rest = i, channel = 0, at[3];
    if (channels_inside) {
      channel = rest % p.channels;
      rest /= p.channels;
    }
    for (int d = 3; d-- > 0;) {
      at[d] = rest % p.out[d];
      rest /= p.out[d];
    }
    if (!channels_inside) {
      channel = rest % p.channels;
      rest /= p.channels;
    }
    int64_t to = rest * p.out_strides[0] + channel * p.out_strides[1];
    for (int d = 0; d < 3; ++d) to += at[d] * p.out_strides[d + 2];
    body(window_at(p, at[0], at[1], at[2]), rest * p.in_strides[0] + channel * p.in_strides[1], to);
  });
}

template <typename T>
__global__ void average_kernel(__grid_constant__ const PoolingWindows p, const T* x, T* y,
                               int64_t count) {
  for_each_output(p, count, [&](const PoolingWindow& w, int64_t from, int64_t to) {
    y[to] = static_cast<T>(aoti::average_in<typename Wide<T>::type>(p, w, x + from));
  });
}

template <typename T>
__global__ void maximum_kernel(__grid_constant__ const PoolingWindows p, const T* x, T* y,
                               int64_t* indices, int64_t count) {
  using W = typename Wide<T>::type;
  for_each_output(p, count, [&](const PoolingWindow& w, int64_t from, int64_t to) {
    int64_t index;
    y[to] = static_cast<T>(aoti::maximum_in(p, w, x + from, -static_cast<W>(INFINITY), index));
    indices[to] = index;
  });
}

}  // namespace

Error pool(const aoti::PoolingCall& call) {
  return with_floating(type_of(call.self), "pooling", [&](auto zero) -> Error {
    using T = decltype(zero);
    const int64_t count = call.out.numel();
    if (count == 0) return Error::Ok;
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
    const auto* x = call.self.data_as<const T>();
    auto* y = call.out.data_as<T>();
    if (!call.indices) {
      return launch_items(count, scope.stream(), "pooling", average_kernel<T>, call.windows, x, y,
                          count);
    }
    return launch_items(count, scope.stream(), "pooling", maximum_kernel<T>, call.windows, x, y,
                        call.indices->data_as<int64_t>(), count);
  });
}

}  // namespace pteron::cuda
