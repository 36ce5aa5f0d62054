// The kernels of a convolution without a library: unfolding, folding back, and the bias.
//
// `columns` holds for each sample a row-major matrix of (channels of a group * kernel) x positions.
// Pure pointers and sizes; asynchronous on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"

namespace pteron::cuda {

// A tensor [batch, channels, ...] in memory; strides in elements.
struct ImageStrides {
  int64_t batch, channel, space[kMaxSpatialDims];
};
ImageStrides packed_image(const Convolution& conv, int64_t channels, const int64_t* sizes);

// columns[n, (c, k), p] = image[n, first_channel + c, p * stride - padding + k * dilation], or 0
// outside. `image` has conv.in_sizes, positions are conv.out_sizes (of a transposed convolution the
// other way round).
Error unfold(const Convolution& conv, const void* image, const ImageStrides& strides,
             int64_t first_channel, int64_t channels, int64_t batch, void* columns,
             cudaStream_t stream);

// The transpose: every element of `image` is the sum of those of `columns` that unfold() would read
// from it; summed in float32 at least.
Error fold(const Convolution& conv, const void* columns, void* image, const ImageStrides& strides,
           int64_t first_channel, int64_t channels, int64_t batch, cudaStream_t stream);

}  // namespace pteron::cuda
