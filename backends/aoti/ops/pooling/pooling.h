// Averages and maxima over windows of images and volumes.
#pragma once

#include "pteron/backends/aoti/ops/pooling/pooling_windows.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

struct PoolingCall {
  const PoolingWindows& windows;
  const slim::SlimTensor& self;  // for averages of floating-point numbers
  const slim::SlimTensor& out;   // of the dtype of self
  // Null for averages. For maxima, the first of equals and NaN before all: int64, of the strides of
  // out, (depth * height + row) * width + column in the plane.
  const slim::SlimTensor* indices;
};

}  // namespace pteron::aoti
