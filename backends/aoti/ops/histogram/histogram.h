// histc and bincount.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = the number of elements of `self` in bin i of equal bins over [low, high]; the last bin
// includes high. Elements outside are not counted.
struct HistogramCall {
  const slim::SlimTensor& self;  // floating-point
  // Equal limits mean the minimum and maximum of `self`. If these are not finite, a device that
  // would have to synchronize to detect it counts nothing.
  double low, high;
  const slim::SlimTensor& out;  // same dtype as self, 1-d, row-major
};

// Minimum and maximum; synchronizes the device.
struct RangeCall {
  const slim::SlimTensor& self;  // integers, at least one
  int64_t& low;
  int64_t& high;
};

// out[i] = the sum of weights of the elements equal to i, or their count.
struct CountCall {
  const slim::SlimTensor& self;     // integers within the size of out, 1-d
  const slim::SlimTensor* weights;  // real, same sizes as self, or null
  const slim::SlimTensor& out;      // int64; with weights float32 or float64
};

}  // namespace pteron::aoti
