#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// A thread computes up to 64 elements of one query's output over all keys in one pass (online
// softmax).
const char kAttentionSource[] = R"MTL(
struct AttentionParams {
  long keys, items, value_items, chunks;
  long shared;
  long causal, masked;
  long query[4], key[4], value[4], mask[4], out[4];
  float scale;
};

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

}  // namespace pteron::metal
