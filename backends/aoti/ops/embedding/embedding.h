// Bags of embeddings: sums, means or maxima of rows of a table.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Bag b holds indices[offsets[b]] to indices[offsets[b + 1] - 1], the last one to the end. Empty
// ones give zeros. An index or an offset that is outside is an error, or is skipped on devices that
// would have to be waited for.
struct EmbeddingBagCall {
  enum class Mode { kSum, kMean, kMax };

  Mode mode;
  const slim::SlimTensor& weight;              // (rows, columns), of floating-point numbers
  const slim::SlimTensor& indices;             // of rows; int32 or int64
  const slim::SlimTensor& offsets;             // one for each bag, or one more; int32 or int64
  const slim::SlimTensor* per_sample_weights;  // factors of sums, of the dtype of weight; or null
  int64_t padding;                             // a row that does not count; -1 for none
  const slim::SlimTensor& out;                 // (bags, columns), row-major
  // What gradients would need, row-major; int32 or int64, all the same.
  const slim::SlimTensor& bag_of_index;
  const slim::SlimTensor& bag_sizes;  // the rows that counted, 0 for an offset behind the last bag
  const slim::SlimTensor* max_rows;   // (bags, columns) for kMax: where maxima are from, else -1
};

}  // namespace pteron::aoti
