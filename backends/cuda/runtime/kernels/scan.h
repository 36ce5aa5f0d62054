// Running sums along the rows of a matrix.
//
//   PTERON_RETURN_IF_ERROR(cumsum_rows(ScalarType::BFloat16, x, ScalarType::Float, y, rows, n,
//                                      stream));
//
// `x` and `y` are row-major (rows, n). Elements are converted to the dtype of y first. 16-bit
// floats are summed in float32, integers in int64. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// InvalidType for float8 and bool results.
Error cumsum_rows(ScalarType x_dtype, const void* x, ScalarType y_dtype, void* y, int64_t rows,
                  int64_t n, cudaStream_t stream);

}  // namespace pteron::cuda
