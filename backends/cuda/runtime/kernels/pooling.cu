#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/pooling.h"
#include "pteron/backends/cuda/runtime/kernels/wide.cuh"

namespace pteron::cuda {
namespace {

using aoti::PoolingWindows;

constexpr int kThreads = 256;

// The part of the input that one output position looks at.
struct Window {
  int64_t begin[3], end[3], step[3];
  int64_t padded = 1;  // positions, those in the padding included
};

__device__ Window window_at(const PoolingWindows& p, const int64_t at[3]) {
  Window w;
  for (int d = 0; d < 3; ++d) {
    if (p.adaptive) {
      w.begin[d] = at[d] * p.in[d] / p.out[d];
      w.end[d] = ((at[d] + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
      w.step[d] = 1;
      w.padded *= w.end[d] - w.begin[d];
      continue;
    }
    int64_t begin = at[d] * p.stride[d] - p.padding[d];
    const int64_t end = begin + (p.kernel[d] - 1) * p.dilation[d] + 1;
    const int64_t limit = p.in[d] + p.padding[d];
    w.padded *= (end < limit ? end : limit) - begin;
    if (begin < 0) begin += (-begin + p.dilation[d] - 1) / p.dilation[d] * p.dilation[d];
    w.begin[d] = begin;
    w.end[d] = end < p.in[d] ? end : p.in[d];
    w.step[d] = p.dilation[d];
  }
  return w;
}

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
    body(window_at(p, at), rest * p.in_strides[0] + channel * p.in_strides[1], to);
  }
}

// Calls body(offset in the plane's memory, number in the plane) for the positions of a window.
template <typename Body>
__device__ void for_each_position(const PoolingWindows& p, const Window& w, const Body& body) {
  for (int64_t z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      const int64_t row = z * p.in_strides[2] + y * p.in_strides[3];
      const int64_t number = (z * p.in[1] + y) * p.in[2];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += w.step[2]) {
        body(row + x * p.in_strides[4], number + x);
      }
    }
  }
}

template <typename T>
__global__ void average_kernel(__grid_constant__ const PoolingWindows p, const T* x, T* y,
                               int64_t count) {
  using W = typename Wide<T>::type;
  for_each_output(p, count, [&](const Window& w, int64_t from, int64_t to) {
    W sum = 0;
    int64_t inside = 0;
    for_each_position(p, w, [&](int64_t offset, int64_t) {
      sum += static_cast<W>(x[from + offset]);
      ++inside;
    });
    const int64_t positions = p.divisor != 0 ? p.divisor : p.count_padding ? w.padded : inside;
    y[to] = static_cast<T>(inside == 0 ? W(0) : sum / static_cast<W>(positions));
  });
}

template <typename T>
__global__ void maximum_kernel(__grid_constant__ const PoolingWindows p, const T* x, T* y,
                               int64_t* indices, int64_t count) {
  using W = typename Wide<T>::type;
  for_each_output(p, count, [&](const Window& w, int64_t from, int64_t to) {
    W held = -static_cast<W>(INFINITY);
    int64_t best_index = (w.begin[0] * p.in[1] + w.begin[1]) * p.in[2] + w.begin[2];
    for_each_position(p, w, [&](int64_t offset, int64_t number) {
      const W found = static_cast<W>(x[from + offset]);
      if (found > held || found != found) {
        held = found;
        best_index = number;
      }
    });
    y[to] = static_cast<T>(held);
    indices[to] = best_index;
  });
}

template <typename T>
void launch(const PoolingWindows& p, const void* x, void* y, int64_t* indices, int64_t count,
            cudaStream_t stream) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (indices) {
    maximum_kernel<T><<<grid, kThreads, 0, stream>>>(p, from, to, indices, count);
  } else {
    average_kernel<T><<<grid, kThreads, 0, stream>>>(p, from, to, count);
  }
}

}  // namespace

Error pool_windows(const PoolingWindows& p, ScalarType dtype, const void* x, void* y,
                   int64_t* indices, cudaStream_t stream) {
  const auto run = dtype == ScalarType::Half       ? launch<__half>
                   : dtype == ScalarType::BFloat16 ? launch<__nv_bfloat16>
                   : dtype == ScalarType::Float    ? launch<float>
                   : dtype == ScalarType::Double   ? launch<double>
                                                   : nullptr;
  PTERON_CHECK_OR_RETURN(run, Error::InvalidType,
                         "pooling: found %s, expected float16, bfloat16, float32 or float64",
                         name_of(dtype));
  const int64_t count = p.batch * p.channels * p.out[0] * p.out[1] * p.out[2];
  if (count == 0) return Error::Ok;
  run(p, x, y, indices, count, stream);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "pooling");
  return Error::Ok;
}

}  // namespace pteron::cuda
