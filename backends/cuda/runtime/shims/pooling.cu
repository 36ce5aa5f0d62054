#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "pteron/backends/aoti/ops/pooling/pooling.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/wide.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

using aoti::PoolingWindow;
using aoti::PoolingWindows;

constexpr int kThreads = 256;

// Calls body(window, offset of the plane in x, offset of the result in y) for this thread's
// outputs, neighbouring threads at neighbouring elements of y.
template <typename Body>
__device__ void for_each_output(const PoolingWindows& p, int64_t count, const Body& body) {
  const bool channels_inside = p.out_strides[1] < p.out_strides[4];
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
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
  }
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

template <typename T>
void launch(const aoti::PoolingCall& call, int64_t count, cudaStream_t stream) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
  const auto* x = call.self.data_as<const T>();
  auto* y = call.out.data_as<T>();
  if (call.indices) {
    maximum_kernel<T><<<grid, kThreads, 0, stream>>>(call.windows, x, y,
                                                     call.indices->data_as<int64_t>(), count);
  } else {
    average_kernel<T><<<grid, kThreads, 0, stream>>>(call.windows, x, y, count);
  }
}

}  // namespace

Error pool(const aoti::PoolingCall& call) {
  const DType dtype = call.self.dtype();
  const auto run = dtype == DType::Half       ? launch<__half>
                   : dtype == DType::BFloat16 ? launch<__nv_bfloat16>
                   : dtype == DType::Float    ? launch<float>
                   : dtype == DType::Double   ? launch<double>
                                              : nullptr;
  PTERON_CHECK_OR_RETURN(run, Error::InvalidType,
                         "pooling: found %s, expected float16, bfloat16, float32 or float64",
                         slim::name_of(dtype));
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  run(call, call.out.numel(), scope.stream());
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "pooling");
  return Error::Ok;
}

}  // namespace pteron::cuda
