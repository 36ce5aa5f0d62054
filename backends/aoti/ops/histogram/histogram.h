// How many numbers there are of each kind.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[i] = how many of `self` lie in the i-th of equal parts of [low, high], of which the last has
// its upper end. Others count nowhere.
struct HistogramCall {
  const slim::SlimTensor& self;  // floating-point
  // Equal limits mean those of the numbers themselves. If these are not finite, a device that would
  // have to wait to see it counts none.
  double low, high;
  const slim::SlimTensor& out;  // of the dtype of self and one dimension, row-major
};

// The least and the greatest number; waits for the device.
struct RangeCall {
  const slim::SlimTensor& self;  // integers, at least one
  int64_t& low;
  int64_t& high;
};

// out[i] = the sum of the weights of numbers i, or how many there are.
struct CountCall {
  const slim::SlimTensor& self;     // integers within out, of one dimension
  const slim::SlimTensor* weights;  // real, of the sizes of self, or null
  const slim::SlimTensor& out;      // int64; with weights float32 or float64
};

}  // namespace pteron::aoti
