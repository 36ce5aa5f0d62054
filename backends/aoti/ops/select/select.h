// Single elements of rows, by their rank or frequency.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// values, indices = one element of each row of `self` along `dim`. Rows are ordered as SortCall's.
struct SelectCall {
  // Of an even number the lower of the two in the middle. kMedian: the first NaN if there is one;
  // kNanMedian: of the numbers, if there are any. kMode: the last of the most frequent, of several
  // the least; every NaN counts for itself.
  enum class Kind { kKth, kMedian, kNanMedian, kMode };

  Kind kind;
  const slim::SlimTensor& self;  // of real numbers, at least one in a row
  size_t dim;
  int64_t k;                        // of kKth: from 1 to the size along `dim`
  const slim::SlimTensor& values;   // of the dtype of self, row-major
  const slim::SlimTensor& indices;  // int64, row-major
};

}  // namespace pteron::aoti
