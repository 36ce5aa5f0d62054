#include "pteron/backends/aoti/ops/index/index.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/on_host/on_host.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// Strides of several tensors, also of offsets into x; and of an index tensor that adds to offsets.
#define PTERON_INDEX_PARAMS                           \
  struct IndexParams {                                \
    int64_t dims, count;                              \
    int64_t sizes[16], x[16], other[16], offsets[16]; \
    int64_t kind, include_self;                       \
  };                                                  \
  struct OffsetParams {                               \
    int64_t dims, count;                              \
    int64_t sizes[16], numbers[16];                   \
    int64_t size, stride, is_first;                   \
  };
PTERON_INDEX_PARAMS

// Computes offsets into x from indices, then reads or writes elements. An index out of range reads
// zero and writes nothing.
const char kSource[] = PTERON_TEXT(PTERON_INDEX_PARAMS) R"MTL(
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

using Kind = aoti::IndexCall::Kind;

Error check_dims(const SlimTensor& tensor) {
  PTERON_CHECK_OR_RETURN(tensor.dim() <= kMostDims, Error::NotSupported,
                         "%s has %zu dimensions, at most %lld are possible",
                         tensor.describe().c_str(), tensor.dim(),
                         static_cast<long long>(kMostDims));
  return Error::Ok;
}

// The contribution of the indices to offsets into x, row-major, same sizes as the indices.
Result<TensorPtr> offsets_of(const aoti::Indexed& indexed) {
  const SlimTensor& shape = *indexed.picked.front().numbers;
  PTERON_RETURN_IF_ERROR(check_dims(shape));
  PTERON_ASSIGN_OR_RETURN(TensorPtr offsets,
                          aoti::make_row_major(shape.sizes(), DType::Long, shape.device()));
  for (const aoti::Indexed::Picked& picked : indexed.picked) {
    OffsetParams params{};
    params.dims = static_cast<int64_t>(shape.dim());
    params.count = shape.numel();
    std::copy(shape.sizes().begin(), shape.sizes().end(), params.sizes);
    const Span<const int64_t> strides = picked.numbers->strides();
    std::copy(strides.begin(), strides.end(), params.numbers);
    params.size = picked.size;
    params.stride = picked.stride;
    params.is_first = &picked == &indexed.picked.front();
    PTERON_RETURN_IF_ERROR(launch(kSource, {{"N", picked.numbers->dtype()}, {"T", DType::Int}},
                                  "add_offsets",
                                  {memory(*offsets), memory(*picked.numbers), bytes(params)},
                                  {static_cast<uint64_t>(params.count), 1, 1}));
  }
  return offsets;
}

}  // namespace

Error fill(const SlimTensor& out, const slim::Scalar& value) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  slim::fill_tensor(out, value);
  return Error::Ok;
}

Error index(const aoti::IndexCall& call) {
  const SlimTensor &x = *call.indexed.x, &other = call.other;
  PTERON_RETURN_IF_ERROR(check_dims(x));
  if (x.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, offsets_of(call.indexed));
  IndexParams params{};
  params.dims = static_cast<int64_t>(x.dim());
  params.count = x.numel();
  std::copy(x.sizes().begin(), x.sizes().end(), params.sizes);
  std::copy(x.strides().begin(), x.strides().end(), params.x);
  std::copy(other.strides().begin(), other.strides().end(), params.other);
  std::copy(offsets->strides().begin(), offsets->strides().end(),
            params.offsets + call.indexed.first);
  params.kind = static_cast<int64_t>(call.kind);
  params.include_self = call.include_self;
  if (call.kind == Kind::kRead || call.kind == Kind::kWrite) {
    return launch(kSource, {{"N", DType::Long}, {"T", dtype_of_bytes(x.item_size())}},
                  call.kind == Kind::kRead ? "read_elements" : "write_elements",
                  {memory(x), memory(other), memory(*offsets), bytes(params)},
                  {static_cast<uint64_t>(params.count), 1, 1});
  }
  const int64_t sizes[] = {call.indexed.reach()};
  PTERON_ASSIGN_OR_RETURN(const TensorPtr counts,
                          aoti::make_row_major(sizes, DType::Int, x.device()));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(*counts));
  return launch(kSource, {{"N", DType::Long}, {"T", x.dtype()}}, "reduce_elements",
                {memory(x), memory(other), memory(*offsets), bytes(params), memory(*counts)},
                {1, 1, 1});
}

// Done on the host, which needs the output size.
Error nonzero(const SlimTensor& self, TensorPtr& coordinates) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  return aoti::on_host::nonzero(self, coordinates);
}

}  // namespace pteron::metal
