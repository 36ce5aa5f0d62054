// Running sums, products and extremes along the rows of a matrix.
//
//   const Scan scan{ScanKind::kSum, rows, n};
//   PTERON_RETURN_IF_ERROR(scan_rows(scan, ScalarType::BFloat16, x, ScalarType::Float, y, stream));
//
// `x` and `y` are row-major (rows, n). Elements are converted to the dtype of y first. 16-bit floats
// are added and multiplied in float32, integers in 64 bits. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Those of ScanCall::Kind (backends/aoti/ops/scan.h).
enum class ScanKind { kSum, kProduct, kLogSumExp, kMaximum, kMinimum };

struct Scan {
  ScanKind kind;
  int64_t rows, n;
};

// Sums, products, logarithms of sums. InvalidType for float8.
Error scan_rows(const Scan& scan, ScalarType x_dtype, const void* x, ScalarType y_dtype, void* y,
                cudaStream_t stream);

// Extremes and where they are: the last of equal ones; a NaN stays. InvalidType for float8.
Error scan_extremes(const Scan& scan, ScalarType dtype, const void* x, void* y, int64_t* indices,
                    cudaStream_t stream);

}  // namespace pteron::cuda
