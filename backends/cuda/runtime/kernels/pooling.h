// Averages and maxima over windows of images and volumes.
//
//   aoti::PoolingWindows pooling;
//   pooling.batch = 8; pooling.channels = 64;
//   pooling.in[1] = pooling.in[2] = 28; ...               // depth, height, width
//   PTERON_RETURN_IF_ERROR(pool_windows(pooling, ScalarType::Half, x, y, nullptr, stream));
//
// Any strides, in elements, so that channels-last images need no copy. float16 and bfloat16 are
// summed in float32. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/backends/aoti/ops/pooling/pooling_windows.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Without `indices` averages, else maxima (ops/pooling.h). InvalidType for dtypes other than
// float16, bfloat16, float32 and float64.
Error pool_windows(const aoti::PoolingWindows& pooling, ScalarType dtype, const void* x, void* y,
                   int64_t* indices, cudaStream_t stream);

}  // namespace pteron::cuda
