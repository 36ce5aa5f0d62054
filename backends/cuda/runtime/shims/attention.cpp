#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>

#include "pteron/backends/cuda/runtime/shims/attention.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

void copy_strides(const SlimTensor& tensor, int64_t (&strides)[4]) {
  std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
}

}  // namespace

Error attention(const aoti::AttentionCall& call) {
  const SlimTensor &query = call.query, &key = call.key, &value = call.value;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  Attention a;
  a.dtype = type_of(query);
  a.batch = query.size(0);
  a.heads = query.size(1);
  a.kv_heads = key.size(1);
  a.queries = query.size(2);
  a.keys = key.size(2);
  a.dim = query.size(3);
  a.value_dim = value.size(3);
  a.q = query.data();
  a.k = key.data();
  a.v = value.data();
  a.out = call.out.data();
  copy_strides(query, a.q_strides);
  copy_strides(key, a.k_strides);
  copy_strides(value, a.v_strides);
  copy_strides(call.out, a.out_strides);
  a.causal = call.causal;
  a.scale = call.scale;
  if (call.mask) {
    a.bias = call.mask->data();
    copy_strides(*call.mask, a.bias_strides);
  }
  // Up to this many queries per key head cuDNN has too little parallelism, since it does not split
  // the keys. For one query it would also build a plan for each length of a growing KV cache.
  const int64_t few = a.queries == 1 ? 32 : 4;
  if (a.queries * (a.heads / a.kv_heads) > few) {
    Error error = attention_with_cudnn(a, scope.device(), scope.stream());
    if (error.ok() || (error != Error::NotFound && error != Error::NotSupported)) return error;
  }
  return attention_by_rows(a, scope.device(), scope.stream());
}

}  // namespace pteron::cuda
