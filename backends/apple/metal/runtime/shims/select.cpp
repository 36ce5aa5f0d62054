#include "pteron/backends/aoti/ops/select/select.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"
#include "pteron/backends/apple/metal/runtime/shims/rows.h"

namespace pteron::metal {
namespace {

const char kSource[] = R"MTL(
// The element of a given rank in each row, or the mode. A thread computes the rank of one element;
// the first thread of a row counts frequencies.
kernel void select_of_rows(device IN* values, device long* indices, device const IN* in,
                           constant RowParams& p, uint2 position [[thread_position_in_grid]]) {
  device const IN* const row = in + row_of(p, position.y).in;
  const long mine = position.x;
  long found = mine;
  if (p.kind == 3) {
    if (mine > 0) return;
    long most = 0;
    for (long i = 0; i < p.length; ++i) {
      const IN element = row[i * p.in_step];
      long frequency = element == element ? 0 : 1;
      bool is_last = true;
      for (long j = 0; j < p.length; ++j) {
        if (row[j * p.in_step] != element) continue;
        ++frequency;
        if (j > i) is_last = false;
      }
      const bool better = frequency > most ||
                          (frequency == most && is_less(element, row[found * p.in_step]));
      if (!is_last || !better) continue;
      most = frequency;
      found = i;
    }
  } else {
    const IN element = row[mine * p.in_step];
    long rank = 0, numbers = 0;
    for (long i = 0; i < p.length; ++i) {
      const IN other = row[i * p.in_step];
      if (other == other) ++numbers;
      if (is_less(other, element) || (!is_less(element, other) && i < mine)) ++rank;
    }
    long wanted = p.count - 1;
    if (p.kind == 1) wanted = numbers < p.length ? numbers : (p.length - 1) / 2;
    if (p.kind == 2) wanted = numbers > 0 ? (numbers - 1) / 2 : 0;
    if (rank != wanted) return;
  }
  values[position.y] = row[found * p.in_step];
  indices[position.y] = found;
}
)MTL";

}  // namespace

Error select(const aoti::SelectCall& call) {
  Rows rows = rows_along(call.self, call.self, call.dim);
  rows.params.count = call.k;
  rows.params.kind = static_cast<int64_t>(call.kind);
  return launch(kSource, {{"IN", call.self.dtype()}, {"OUT", call.self.dtype()}}, "select_of_rows",
                {memory(call.values), memory(call.indices), memory(call.self), bytes(rows.params)},
                {static_cast<uint64_t>(rows.params.length), rows.count, 1});
}

}  // namespace pteron::metal
