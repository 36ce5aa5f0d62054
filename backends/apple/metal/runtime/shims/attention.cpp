#include "pteron/backends/aoti/ops/attention/attention.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// shared: query heads per key head. Strides in elements.
#define PTERON_ATTENTION_PARAMS                          \
  struct AttentionParams {                               \
    int64_t keys, items, value_items, chunks;            \
    int64_t shared;                                      \
    int64_t causal, masked;                              \
    int64_t query[4], key[4], value[4], mask[4], out[4]; \
    float scale;                                         \
  };
PTERON_ATTENTION_PARAMS

// A thread computes up to 64 elements of one query's output over all keys in one pass (online
// softmax).
const char kSource[] = PTERON_TEXT(PTERON_ATTENTION_PARAMS) R"MTL(
kernel void attention(device T* out, device const T* queries, device const T* keys,
                      device const T* values, device const T* masks, constant AttentionParams& p,
                      uint3 position [[thread_position_in_grid]]) {
  const long query = position.x, head = position.y;
  const long batch = position.z / p.chunks, first = 64 * (position.z % p.chunks);
  const int items = int(min(64L, p.value_items - first));
  const long key_head = head / p.shared;
  device const T* q = queries + batch * p.query[0] + head * p.query[1] + query * p.query[2];
  device const T* k = keys + batch * p.key[0] + key_head * p.key[1];
  device const T* v = values + batch * p.value[0] + key_head * p.value[1] + first * p.value[3];
  device const T* mask = masks + batch * p.mask[0] + head * p.mask[1] + query * p.mask[2];
  const long end = p.causal ? min(p.keys, query + 1) : p.keys;
  float sums[64] = {};
  float greatest = -INFINITY, total = 0;
  for (long key = 0; key < end; ++key) {
    float score = 0;
    for (long i = 0; i < p.items; ++i) {
      score += float(q[i * p.query[3]]) * float(k[key * p.key[2] + i * p.key[3]]);
    }
    score *= p.scale;
    if (p.masked) score += float(mask[key * p.mask[3]]);
    if (score == -INFINITY) continue;
    if (score > greatest) {
      const float kept = metal::precise::exp(greatest - score);
      total *= kept;
      for (int i = 0; i < items; ++i) sums[i] *= kept;
      greatest = score;
    }
    const float weight = metal::precise::exp(score - greatest);
    total += weight;
    for (int i = 0; i < items; ++i) {
      sums[i] += weight * float(v[key * p.value[2] + i * p.value[3]]);
    }
  }
  device T* to = out + batch * p.out[0] + head * p.out[1] + query * p.out[2] + first * p.out[3];
  for (int i = 0; i < items; ++i) to[i * p.out[3]] = T(total == 0 ? 0.0f : sums[i] / total);
}
)MTL";

}  // namespace

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
      kSource, {{"T", out.dtype()}}, "attention",
      {memory(out), memory(query), memory(key), memory(value), memory(mask), bytes(params)},
      {static_cast<uint64_t>(out.size(2)), static_cast<uint64_t>(out.size(1)),
       static_cast<uint64_t>(out.size(0) * params.chunks)});
}

}  // namespace pteron::metal
