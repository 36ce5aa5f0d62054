// Attention.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = softmax(scale * query key^T + mask) value over the last two dimensions of four: batch, heads,
// queries or keys, items. All of one dtype, float32, float16 or bfloat16, any strides. A query that
// no key is left for gives zeros.
struct AttentionCall {
  const slim::SlimTensor& query;
  const slim::SlimTensor& key;  // of as many heads as query, or of fewer that neighbours share
  const slim::SlimTensor& value;
  const slim::SlimTensor* mask;  // (batch, heads, queries, keys), any strides; null: none
  bool causal;                   // query i looks at keys 0 to i
  double scale;
  const slim::SlimTensor& out;  // dense, heads and queries in the order that query has in memory
};

}  // namespace pteron::aoti
