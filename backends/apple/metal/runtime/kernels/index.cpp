#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// Computes offsets into x from indices, then reads or writes elements. An index out of range reads
// zero and writes nothing.
const char kIndexSource[] = R"MTL(
struct IndexParams {
  long dims, count;
  long sizes[16], x[16], other[16], offsets[16];
  long kind, include_self;
};
struct OffsetParams {
  long dims, count;
  long sizes[16], numbers[16];
  long size, stride, is_first;
};

constant long kOutside = -0x4000000000000000L;

kernel void add_offsets(device long* offsets, device const N* numbers, constant OffsetParams& p,
                        uint i [[thread_position_in_grid]]) {
  long at = 0, rest = i;
  for (long d = p.dims; d-- > 0; rest /= p.sizes[d]) at += rest % p.sizes[d] * p.numbers[d];
  long number = numbers[at];
  if (number < 0) number += p.size;
  const long before = p.is_first ? 0 : offsets[i];
  const bool inside = number >= 0 && number < p.size && before != kOutside;
  offsets[i] = inside ? before + number * p.stride : kOutside;
}

struct At {
  long x, other;
  bool inside;
};
inline At element_at(constant IndexParams& p, device const long* offsets, long i) {
  At at = {0, 0, true};
  long offset = 0;
  for (long d = p.dims; d-- > 0; i /= p.sizes[d]) {
    const long number = i % p.sizes[d];
    at.x += number * p.x[d];
    at.other += number * p.other[d];
    offset += number * p.offsets[d];
  }
  at.inside = offsets[offset] != kOutside;
  at.x += at.inside ? offsets[offset] : 0;
  return at;
}

kernel void read_elements(device T* x, device T* other, device const long* offsets,
                          constant IndexParams& p, uint i [[thread_position_in_grid]]) {
  const At at = element_at(p, offsets, i);
  other[at.other] = at.inside ? x[at.x] : T(0);
}

kernel void write_elements(device T* x, device T* other, device const long* offsets,
                           constant IndexParams& p, uint i [[thread_position_in_grid]]) {
  const At at = element_at(p, offsets, i);
  if (at.inside) x[at.x] = other[at.other];
}

inline T_SUM combined(long kind, T_SUM a, T_SUM b) {
  if (kind == 3) return a * b;
  if (kind == 5) return a != a || a >= b ? a : b;
  if (kind == 6) return a != a || a <= b ? a : b;
  return a + b;
}

// One thread accumulates all values in order: Metal has no atomics for most dtypes, and the result
// is deterministic. `counts` (initially zero, one per element of x) is the number of values
// accumulated.
kernel void reduce_elements(device T* x, device T* other, device const long* offsets,
                            constant IndexParams& p, device int* counts,
                            uint thread_number [[thread_position_in_grid]]) {
  for (long i = 0; i < p.count; ++i) {
    const At at = element_at(p, offsets, i);
    if (!at.inside) continue;
    const bool is_first = counts[at.x]++ == 0 && !p.include_self;
    x[at.x] = is_first ? other[at.other]
                       : T(combined(p.kind, T_SUM(x[at.x]), T_SUM(other[at.other])));
  }
  for (long i = 0; p.kind == 4 && i < p.count; ++i) {
    const At at = element_at(p, offsets, i);
    if (!at.inside || counts[at.x] == 0) continue;
    const T_SUM sum = x[at.x], count = counts[at.x] + (p.include_self ? 1 : 0);
    T_SUM mean = sum / count;
    if (T_IS_INTEGER && mean * count > sum) mean -= 1;  // rounded down
    x[at.x] = T(mean);
    counts[at.x] = 0;
  }
}
)MTL";

}  // namespace pteron::metal
