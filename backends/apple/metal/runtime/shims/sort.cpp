#include "pteron/backends/aoti/ops/sort/sort.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"
#include "pteron/backends/apple/metal/runtime/shims/rows.h"

namespace pteron::metal {
namespace {

const char kSource[] = R"MTL(
// A thread computes the rank of one element by counting the elements before it (a stable sort). The
// first `count` ranks are written.
kernel void sort_rows(device IN* values, device long* indices, device const IN* in,
                      constant RowParams& p, uint2 position [[thread_position_in_grid]]) {
  const Row row = row_of(p, position.y);
  const long mine = position.x;
  const IN element = in[row.in + mine * p.in_step];
  long rank = 0;
  for (long i = 0; i < p.length && rank < p.count; ++i) {
    const IN other = in[row.in + i * p.in_step];
    const bool before = p.kind ? is_less(element, other) : is_less(other, element);
    const bool after = p.kind ? is_less(other, element) : is_less(element, other);
    if (before || (!after && i < mine)) ++rank;
  }
  if (rank >= p.count) return;
  values[row.out + rank * p.out_step] = element;
  indices[row.out + rank * p.out_step] = mine;
}
)MTL";

}  // namespace

Error sort(const aoti::SortCall& call) {
  Rows rows = rows_along(call.self, call.values, call.dim);
  rows.params.count = call.count;
  rows.params.kind = call.descending;
  if (call.count == 0) return Error::Ok;
  return launch(kSource, {{"IN", call.self.dtype()}, {"OUT", call.self.dtype()}}, "sort_rows",
                {memory(call.values), memory(call.indices), memory(call.self), bytes(rows.params)},
                {static_cast<uint64_t>(rows.params.length), rows.count, 1});
}

}  // namespace pteron::metal
