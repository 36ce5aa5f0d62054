// Positions of numbers in sorted sequences.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = how many elements of a row of `sequence` come before values[i]: with `right` those that
// are not greater, else those that are less. NaN comes after everything.
struct SearchCall {
  const slim::SlimTensor&
      sequence;                    // rows along the last dimension: one, or one for each of values
  const slim::SlimTensor* sorter;  // int64, of the sizes of sequence: its order; null if sorted
  const slim::SlimTensor& values;
  slim::DType compared;  // the type for comparisons, real
  bool right;
  const slim::SlimTensor& out;  // int32 or int64, of the sizes of values, row-major

  int64_t length() const { return sequence.size(sequence.dim() - 1); }
  // Values that are looked up in one row.
  int64_t per_row() const {
    return sequence.dim() == 1 ? values.numel() : values.size(values.dim() - 1);
  }
};

}  // namespace pteron::aoti
