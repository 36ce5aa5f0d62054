// Attention.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = softmax(scale * query key^T + mask) value on tensors of (batch, heads, queries or keys,
// head dim). All have one dtype, float32, float16 or bfloat16, and any strides. A query with every
// key masked gives zeros.
struct AttentionCall {
  const slim::SlimTensor& query;
  const slim::SlimTensor& key;  // as many heads as query, or fewer (grouped-query attention)
  const slim::SlimTensor& value;
  const slim::SlimTensor* mask;  // (batch, heads, queries, keys), any strides; null: none
  bool causal;                   // query i attends to keys 0 to i
  double scale;
  const slim::SlimTensor& out;  // dense, with heads and queries in the memory order of query
};

}  // namespace pteron::aoti
