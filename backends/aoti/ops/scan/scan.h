// cumsum, cumprod, logcumsumexp, cummax and cummin. Outputs are row-major.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = in[i] with out[i - 1], along `dim`.
struct ScanCall {
  // Floating-point dtypes accumulate in a wider type if there is one; integers wrap. kLogSumExp:
  // log(exp(x0) + ... + exp(xi)), computed without overflow. Min and max: the last of equal
  // elements; NaN propagates.
  enum class Kind { kSum, kProduct, kLogSumExp, kMaximum, kMinimum };

  Kind kind;
  const slim::SlimTensor& self;  // converted to the dtype of `out` first
  size_t dim;
  const slim::SlimTensor& out;      // row-major
  const slim::SlimTensor* indices;  // int64, row-major: indices of the min or max; else null
};

}  // namespace pteron::aoti
