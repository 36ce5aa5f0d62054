#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/unfold.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

// The geometry of one unfolding: `image` is the side with elements, positions the other one.
struct Geometry {
  int64_t image[kMaxSpatialDims], positions[kMaxSpatialDims], kernel[kMaxSpatialDims],
      stride[kMaxSpatialDims], padding[kMaxSpatialDims], dilation[kMaxSpatialDims];
  int64_t channels, first_channel, num_positions, num_taps;
  ImageStrides strides;
};

Geometry make_geometry(const Convolution& c, const ImageStrides& strides, int64_t first_channel,
                       int64_t channels) {
  Geometry g{};
  g.channels = channels;
  g.first_channel = first_channel;
  g.strides = strides;
  g.num_positions = g.num_taps = 1;
  for (int i = 0; i < kMaxSpatialDims; ++i) {
    const bool used = i < c.dims;
    g.image[i] = !used ? 1 : c.transposed ? c.out_sizes[i] : c.in_sizes[i];
    g.positions[i] = !used ? 1 : c.transposed ? c.in_sizes[i] : c.out_sizes[i];
    g.kernel[i] = used ? c.kernel[i] : 1;
    g.stride[i] = used ? c.stride[i] : 1;
    g.padding[i] = used ? c.padding[i] : 0;
    g.dilation[i] = used ? c.dilation[i] : 1;
    g.num_positions *= g.positions[i];
    g.num_taps *= g.kernel[i];
  }
  return g;
}

template <typename T>
__global__ void unfold_kernel(const T* image, T* columns, int64_t count,
                              __grid_constant__ const Geometry g) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t rest = i;
    int64_t at[kMaxSpatialDims], tap[kMaxSpatialDims];
    for (int d = kMaxSpatialDims; d-- > 0;) {
      at[d] = rest % g.positions[d];
      rest /= g.positions[d];
    }
    for (int d = kMaxSpatialDims; d-- > 0;) {
      tap[d] = rest % g.kernel[d];
      rest /= g.kernel[d];
    }
    const int64_t channel = rest % g.channels, sample = rest / g.channels;
    int64_t offset = sample * g.strides.batch + (g.first_channel + channel) * g.strides.channel;
    bool inside = true;
    for (int d = 0; d < kMaxSpatialDims; ++d) {
      const int64_t position = at[d] * g.stride[d] - g.padding[d] + tap[d] * g.dilation[d];
      inside = inside && position >= 0 && position < g.image[d];
      offset += position * g.strides.space[d];
    }
    columns[i] = inside ? image[offset] : T(0.0f);
  }
}

template <typename T>
struct Sum {
  using type = float;
};
template <>
struct Sum<double> {
  using type = double;
};

template <typename T>
__global__ void fold_kernel(const T* columns, T* image, int64_t count,
                            __grid_constant__ const Geometry g) {
  using S = typename Sum<T>::type;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    int64_t rest = i, coordinates[kMaxSpatialDims];
    for (int d = kMaxSpatialDims; d-- > 0;) {
      coordinates[d] = rest % g.image[d];
      rest /= g.image[d];
    }
    const int64_t channel = rest % g.channels, sample = rest / g.channels;
    const T* matrix = columns + (sample * g.channels + channel) * g.num_taps * g.num_positions;
    S sum = 0;
    for (int64_t tap = 0; tap < g.num_taps; ++tap) {
      int64_t tap_rest = tap, position = 0, scale = 1;
      bool hit = true;
      for (int d = kMaxSpatialDims; d-- > 0;) {
        const int64_t k = tap_rest % g.kernel[d];
        tap_rest /= g.kernel[d];
        const int64_t distance = coordinates[d] + g.padding[d] - k * g.dilation[d];
        const int64_t at = distance / g.stride[d];
        hit = hit && distance >= 0 && distance % g.stride[d] == 0 && at < g.positions[d];
        position += at * scale;
        scale *= g.positions[d];
      }
      if (hit) sum += static_cast<S>(matrix[tap * g.num_positions + position]);
    }
    int64_t offset = sample * g.strides.batch + (g.first_channel + channel) * g.strides.channel;
    for (int d = 0; d < kMaxSpatialDims; ++d) offset += coordinates[d] * g.strides.space[d];
    image[offset] = static_cast<T>(sum);
  }
}

unsigned blocks(int64_t count) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < 65536 ? needed : 65536);
}

template <typename Launch>
Error dispatch(ScalarType dtype, const char* what, Launch&& launch) {
  switch (dtype) {
    case ScalarType::Half:
      launch(__half{});
      break;
    case ScalarType::BFloat16:
      launch(__nv_bfloat16{});
      break;
    case ScalarType::Double:
      launch(double{});
      break;
    default:
      launch(float{});
      break;
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), what);
  return Error::Ok;
}

}  // namespace

ImageStrides packed_image(const Convolution& conv, int64_t channels, const int64_t* sizes) {
  ImageStrides strides{};
  int64_t stride = 1;
  if (conv.channels_last) {
    strides.channel = 1;
    stride = channels;
  }
  for (int i = conv.dims; i-- > 0;) {
    strides.space[i] = stride;
    stride *= sizes[i];
  }
  if (!conv.channels_last) {
    strides.channel = stride;
    stride *= channels;
  }
  strides.batch = stride;
  return strides;
}

Error unfold(const Convolution& conv, const void* image, const ImageStrides& strides,
             int64_t first_channel, int64_t channels, int64_t batch, void* columns,
             cudaStream_t stream) {
  const Geometry g = make_geometry(conv, strides, first_channel, channels);
  const int64_t count = batch * channels * g.num_taps * g.num_positions;
  if (count == 0) return Error::Ok;
  return dispatch(conv.dtype, "unfolding an image", [&](auto zero) {
    using T = decltype(zero);
    unfold_kernel<T><<<blocks(count), kThreads, 0, stream>>>(static_cast<const T*>(image),
                                                             static_cast<T*>(columns), count, g);
  });
}

Error fold(const Convolution& conv, const void* columns, void* image, const ImageStrides& strides,
           int64_t first_channel, int64_t channels, int64_t batch, cudaStream_t stream) {
  const Geometry g = make_geometry(conv, strides, first_channel, channels);
  const int64_t count = batch * channels * g.image[0] * g.image[1] * g.image[2];
  if (count == 0) return Error::Ok;
  return dispatch(conv.dtype, "folding an image", [&](auto zero) {
    using T = decltype(zero);
    fold_kernel<T><<<blocks(count), kThreads, 0, stream>>>(static_cast<const T*>(columns),
                                                           static_cast<T*>(image), count, g);
  });
}

}  // namespace pteron::cuda
