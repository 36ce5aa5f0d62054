#include "pteron/backends/aoti/ops/scan/scan.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"
#include "pteron/backends/apple/metal/runtime/shims/rows.h"

namespace pteron::metal {
namespace {

const char kSource[] = R"MTL(
// One thread per row.
kernel void scan_rows(device OUT* out, device const IN* in, constant RowParams& p,
                      uint number [[thread_position_in_grid]]) {
  const Row row = row_of(p, number);
  OUT_SUM running = p.kind == 1 ? OUT_SUM(1) : OUT_SUM(0);
  float greatest = -INFINITY, total = 0;  // state of logcumsumexp
  OUT_SUM lost = 0;                       // compensation of float sums
  for (long i = 0; i < p.length; ++i) {
    const OUT_SUM next = OUT_SUM(OUT(in[row.in + i * p.in_step]));
    if (p.kind == 0) {
      const OUT_SUM added = next - lost, sum = running + added;
      const OUT_SUM error = (sum - running) - added;
      lost = error == error && error - error == 0 ? error : OUT_SUM(0);
      running = sum;
    } else if (p.kind == 1) {
      running *= next;
    } else {
      const float value = float(next);
      if (value != value || total != total) {
        total = NAN;
      } else if (value == INFINITY || greatest == INFINITY) {
        greatest = INFINITY;
        total = 1;
      } else if (value > greatest) {
        total = total * metal::precise::exp(greatest - value) + 1;
        greatest = value;
      } else if (value != -INFINITY) {
        total += metal::precise::exp(value - greatest);
      }
      running = OUT_SUM(greatest == -INFINITY && total == 0 ? -INFINITY
                                                            : greatest + metal::precise::log(total));
    }
    out[row.out + i * p.out_step] = OUT(running);
  }
}

kernel void extremes_of_rows(device OUT* out, device const IN* in, constant RowParams& p,
                             device long* indices, uint number [[thread_position_in_grid]]) {
  const Row row = row_of(p, number);
  OUT held = OUT(in[row.in]);
  long best = 0;
  for (long i = 0; i < p.length; ++i) {
    const OUT next = OUT(in[row.in + i * p.in_step]);
    const bool better = p.kind == 3 ? next >= held : next <= held;
    if (next != next || (held == held && better)) {
      held = next;
      best = i;
    }
    out[row.out + i * p.out_step] = held;
    indices[row.out + i * p.out_step] = best;
  }
}
)MTL";

}  // namespace

Error scan(const aoti::ScanCall& call) {
  Rows rows = rows_along(call.self, call.out, call.dim);
  rows.params.kind = static_cast<int64_t>(call.kind);
  if (rows.params.length == 0) return Error::Ok;
  if (call.indices) {
    return launch(kSource, {{"IN", call.self.dtype()}, {"OUT", call.out.dtype()}},
                  "extremes_of_rows",
                  {memory(call.out), memory(call.self), bytes(rows.params), memory(*call.indices)},
                  {rows.count, 1, 1});
  }
  return launch(kSource, {{"IN", call.self.dtype()}, {"OUT", call.out.dtype()}}, "scan_rows",
                {memory(call.out), memory(call.self), bytes(rows.params)}, {rows.count, 1, 1});
}

}  // namespace pteron::metal
