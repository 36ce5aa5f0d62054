#include "pteron/backends/cuda/runtime/kernels/attention.h"

namespace pteron::cuda {

Error attention(const Attention& a, int device, cudaStream_t stream) {
  // Up to this many queries per key head cuDNN has too little parallelism, since it does not split
  // the keys. For one query it would also build a plan for each length of a growing KV cache.
  const int64_t few = a.queries == 1 ? 32 : 4;
  if (a.queries * (a.heads / a.kv_heads) > few) {
    Error error = attention_with_cudnn(a, device, stream);
    if (error.ok() || (error != Error::NotFound && error != Error::NotSupported)) return error;
  }
  return attention_by_rows(a, device, stream);
}

}  // namespace pteron::cuda
