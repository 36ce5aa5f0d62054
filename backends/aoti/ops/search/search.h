// searchsorted and bucketize.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = the number of elements of a row of `sequence` that are less than values[i], or with
// `right` not greater. NaN sorts last.
struct SearchCall {
  const slim::SlimTensor& sequence;  // rows along the last dimension: one, or one per row of values
  const slim::SlimTensor* sorter;  // int64, same sizes as sequence: its sort order; null if sorted
  const slim::SlimTensor& values;
  slim::DType compared;  // dtype for comparisons, real
  bool right;
  const slim::SlimTensor& out;  // int32 or int64, same sizes as values, row-major

  int64_t length() const { return sequence.size(sequence.dim() - 1); }
  // Number of values looked up in one row.
  int64_t per_row() const {
    return sequence.dim() == 1 ? values.numel() : values.size(values.dim() - 1);
  }
};

}  // namespace pteron::aoti
