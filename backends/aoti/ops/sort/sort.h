// Sort along a dimension. NaN sorts as the largest value.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// values, indices = the first `count` of each sorted row of `self` along `dim`.
struct SortCall {
  const slim::SlimTensor& self;  // real dtype
  size_t dim;
  bool descending;
  bool stable;                      // stable sort
  int64_t count;                    // at most the size along `dim`
  const slim::SlimTensor& values;   // same dtype as self, any strides
  const slim::SlimTensor& indices;  // int64, same strides as values
};

}  // namespace pteron::aoti
