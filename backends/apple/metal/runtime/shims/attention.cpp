#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error attention(const aoti::AttentionCall& call) {
  const SlimTensor &query = call.query, &key = call.key, &value = call.value, &out = call.out;
  const SlimTensor& mask = call.mask ? *call.mask : query;
  AttentionParams params{};
  params.keys = key.size(2);
  params.items = query.size(3);
  params.value_items = value.size(3);
  params.chunks = std::max<int64_t>(1, (params.value_items + 63) / 64);
  params.shared = query.size(1) / std::max<int64_t>(1, key.size(1));
  params.causal = call.causal;
  params.masked = call.mask != nullptr;
  for (size_t d = 0; d < 4; ++d) {
    params.query[d] = query.stride(d);
    params.key[d] = key.stride(d);
    params.value[d] = value.stride(d);
    params.out[d] = out.stride(d);
  }
  if (call.mask) {
    std::copy(mask.strides().begin(), mask.strides().end(), params.mask);
  }
  params.scale = static_cast<float>(call.scale);
  return launch(
      kAttentionSource, {{"T", out.dtype()}}, "attention",
      {memory(out), memory(query), memory(key), memory(value), memory(mask), bytes(params)},
      {static_cast<uint64_t>(out.size(2)), static_cast<uint64_t>(out.size(1)),
       static_cast<uint64_t>(out.size(0) * params.chunks)});
}

}  // namespace pteron::metal
