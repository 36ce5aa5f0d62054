// kthvalue, median, nanmedian and mode.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// values, indices = one element of each row of `self` along `dim`. Rows are ordered as in SortCall.
struct SelectCall {
  // Median of an even number: the lower of the two in the middle. kMedian: the first NaN if there
  // is one; kNanMedian: ignores NaN unless all are. kMode: the smallest of the most frequent, at
  // its last position; NaNs are not equal to each other.
  enum class Kind { kKth, kMedian, kNanMedian, kMode };

  Kind kind;
  const slim::SlimTensor& self;  // real dtype, at least one element per row
  size_t dim;
  int64_t k;                        // for kKth: from 1 to the size along `dim`
  const slim::SlimTensor& values;   // same dtype as self, row-major
  const slim::SlimTensor& indices;  // int64, row-major
};

}  // namespace pteron::aoti
