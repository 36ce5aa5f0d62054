// Runs of elements that lie one after the other.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Element i of `count` belongs to run k if ends[k - 1] <= i < ends[k]. All tensors have one
// dimension and are row-major.
struct RunsCall {
  int64_t count;
  const slim::SlimTensor& ends;   // int64, rising; the last run may be left out, it ends at `count`
  const slim::SlimTensor* order;  // int64: numbers[order[i]] is for element i; null: numbers[i]
  const slim::SlimTensor* numbers;  // int32 or int64: takes the runs of elements; or null
  const slim::SlimTensor* lengths;  // int64, of all runs; or null
};

}  // namespace pteron::aoti
