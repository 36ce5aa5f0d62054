// Average and max pooling in two and three dimensions.
#pragma once

#include "pteron/backends/aoti/ops/pooling/pooling_windows.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

struct PoolingCall {
  const PoolingWindows& windows;
  const slim::SlimTensor& self;  // for average pooling of floating-point dtypes
  const slim::SlimTensor& out;   // same dtype as self
  // Null for average pooling. For max pooling the first of equal elements, or a NaN: int64, same
  // strides as out, (depth * height + row) * width + column in the plane.
  const slim::SlimTensor* indices;
};

}  // namespace pteron::aoti
