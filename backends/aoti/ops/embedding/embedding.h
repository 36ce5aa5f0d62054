// embedding_bag: sum, mean or max of rows of a table.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Bag b holds indices[offsets[b]] to indices[offsets[b + 1] - 1], the last one to the end. An empty
// bag gives zeros. An index or offset out of range is an error; devices that would have to
// synchronize skip it instead.
struct EmbeddingBagCall {
  enum class Mode { kSum, kMean, kMax };

  Mode mode;
  const slim::SlimTensor& weight;              // (rows, columns), floating point
  const slim::SlimTensor& indices;             // row indices; int32 or int64
  const slim::SlimTensor& offsets;             // one per bag, or one more; int32 or int64
  const slim::SlimTensor* per_sample_weights;  // per_sample_weights, same dtype as weight; or null
  int64_t padding;                             // padding_idx; -1 for none
  const slim::SlimTensor& out;                 // (bags, columns), row-major
  // Outputs for autograd, row-major; all int32 or all int64.
  const slim::SlimTensor& bag_of_index;
  const slim::SlimTensor&
      bag_sizes;  // number of rows in the bag; 0 for an offset after the last bag
  const slim::SlimTensor* max_rows;  // (bags, columns) for kMax: the row of the maximum, else -1
};

}  // namespace pteron::aoti
