// Running sums, products and extremes along a dimension. Results are row-major.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = in[i] with out[i - 1], along `dim`.
struct ScanCall {
  // Sums of floating-point numbers are kept wider than those where there is a wider type; integers
  // wrap. kLogSumExp: log(exp(x0) + ... + exp(xi)), without leaving the range of the numbers.
  // Extremes: the last of equal ones, and a NaN stays.
  enum class Kind { kSum, kProduct, kLogSumExp, kMaximum, kMinimum };

  Kind kind;
  const slim::SlimTensor& self;  // is converted to the dtype of `out` first
  size_t dim;
  const slim::SlimTensor& out;      // row-major
  const slim::SlimTensor* indices;  // int64, row-major: where the extremes are; else null
};

}  // namespace pteron::aoti
