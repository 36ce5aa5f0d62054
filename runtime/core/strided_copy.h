// Copies on the host between two strided layouts of the same sizes.
//
//   copy_strided(to, to_strides, from, from_strides, sizes, dim, sizeof(float));
//
// Strides are in elements and may be zero or negative.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/tensor.h"

namespace pteron {

// Two layouts with dimensions sorted by the target's strides, innermost last, and coalesced where
// both allow it.
struct StridedPlan {
  // At most kMaxTensorDims dimensions.
  StridedPlan(const int64_t* target_strides, const int64_t* source_strides,
              const int64_t* dim_sizes, size_t dims);

  // Calls inner(target offset, source offset, count, target stride, source stride) for each
  // innermost run; all in elements.
  template <typename Inner>
  void for_each_run(Inner&& inner) const;

  size_t dim = 0;
  int64_t sizes[kMaxTensorDims];
  int64_t target[kMaxTensorDims];
  int64_t source[kMaxTensorDims];
};

// Elements of `item_size` bytes (1, 2, 4, 8 or 16), of any alignment. The layouts must not overlap.
void copy_strided(void* target, const int64_t* target_strides, const void* source,
                  const int64_t* source_strides, const int64_t* sizes, size_t dim,
                  size_t item_size);

template <typename Inner>
void StridedPlan::for_each_run(Inner&& inner) const {
  if (dim == 0) {
    inner(0, 0, 1, 1, 1);
    return;
  }
  for (size_t i = 0; i < dim; ++i) {
    if (sizes[i] == 0) return;
  }
  const size_t last = dim - 1;
  int64_t index[kMaxTensorDims] = {0};
  int64_t to = 0, from = 0;
  while (true) {
    inner(to, from, sizes[last], target[last], source[last]);
    size_t d = last;
    while (d-- > 0) {
      to += target[d];
      from += source[d];
      if (++index[d] < sizes[d]) break;
      to -= target[d] * sizes[d];
      from -= source[d] * sizes[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace pteron
