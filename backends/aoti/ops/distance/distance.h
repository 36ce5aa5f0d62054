// Distances between rows.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[..., i, j] = the p-norm of x1[..., i, :] - x2[..., j, :]; p = 0 counts the columns that
// differ.
struct DistanceCall {
  const slim::SlimTensor& x1;  // float32 or float64; equal batch sizes and columns, any strides
  const slim::SlimTensor& x2;
  double p;                     // at least 0, may be infinite
  bool each_once;               // x1 is x2, and only pairs i < j, concatenated (pdist)
  const slim::SlimTensor& out;  // row-major
};

}  // namespace pteron::aoti
