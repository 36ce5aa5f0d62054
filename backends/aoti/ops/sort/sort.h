// Sorting along a dimension. NaN counts as the greatest number.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// values, indices = the first `count` of each sorted row of `self` along `dim`.
struct SortCall {
  const slim::SlimTensor& self;  // of real numbers
  size_t dim;
  bool descending;
  bool stable;                      // equal elements keep their order
  int64_t count;                    // at most the size along `dim`
  const slim::SlimTensor& values;   // of the dtype of self, any strides
  const slim::SlimTensor& indices;  // int64, of the strides of values
};

}  // namespace pteron::aoti
