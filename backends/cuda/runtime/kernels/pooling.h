// Averages and maxima over windows of images and volumes.
//
//   Pooling pooling;
//   pooling.dtype = ScalarType::Half; pooling.batch = 8; pooling.channels = 64;
//   pooling.in[1] = pooling.in[2] = 28; ...               // depth, height, width
//   PTERON_RETURN_IF_ERROR(average_pool(pooling, /*count_padding=*/true, /*divisor=*/0, x, y,
//                                       stream));
//
// Any strides, in elements, so that channels-last images need no copy. float16 and bfloat16 are
// summed in float32. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct Pooling {
  ScalarType dtype = ScalarType::Float;  // of input and result
  // Windows are nearly equal parts of the input; then only in and out are read.
  bool adaptive = false;
  int64_t batch = 1, channels = 1;
  // Depth, height, width; those that a tensor lacks have size 1.
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  // Batch, channels, depth, height, width.
  int64_t in_strides[5] = {0, 0, 0, 0, 0}, out_strides[5] = {0, 0, 0, 0, 0};
};

// `divisor` 0: the number of positions of the window, those in the padding counted or not.
// InvalidType for dtypes other than float16, bfloat16, float32 and float64.
Error average_pool(const Pooling& pooling, bool count_padding, int64_t divisor, const void* x,
                   void* y, cudaStream_t stream);

// The greatest element of each window, the first of equals, NaN before all, and where it is in its
// plane: (depth * height + row) * width + column. `indices` has the strides of `y`.
Error maximum_pool(const Pooling& pooling, const void* x, void* y, int64_t* indices,
                   cudaStream_t stream);

}  // namespace pteron::cuda
