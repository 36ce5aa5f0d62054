// Runs of consecutive elements.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Element i of `count` belongs to run k if ends[k - 1] <= i < ends[k]. All tensors are 1-d and
// row-major.
struct RunsCall {
  int64_t count;
  const slim::SlimTensor& ends;  // int64, increasing; the last entry may be omitted (it is `count`)
  const slim::SlimTensor* order;    // int64: numbers[order[i]] is for element i; null: numbers[i]
  const slim::SlimTensor* numbers;  // int32 or int64: output, the run of each element; or null
  const slim::SlimTensor* lengths;  // int64: output, the length of each run; or null
};

}  // namespace pteron::aoti
