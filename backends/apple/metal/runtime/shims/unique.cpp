#include "pteron/backends/aoti/ops/unique/runs.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

#define PTERON_RUN_PARAMS                  \
  struct RunParams {                       \
    int64_t count, width, ends, has_order; \
  };
PTERON_RUN_PARAMS

const char kSource[] = PTERON_TEXT(PTERON_RUN_PARAMS) R"MTL(
kernel void order_rows(device long* order, device const T* rows, constant RunParams& p,
                       uint mine [[thread_position_in_grid]]) {
  long rank = 0;
  for (long i = 0; i < p.count; ++i) {
    bool before = i < long(mine);
    for (long c = 0; c < p.width; ++c) {
      const T other = rows[i * p.width + c], element = rows[mine * p.width + c];
      const bool less = is_less(other, element);
      if (!less && !is_less(element, other)) continue;
      before = less;
      break;
    }
    if (before) ++rank;
  }
  order[rank] = mine;
}

kernel void mark_runs(device bool* starts, device const T* rows, device const long* order,
                      constant RunParams& p, uint i [[thread_position_in_grid]]) {
  bool starts_here = i == 0;
  for (long c = 0; c < p.width && !starts_here; ++c) {
    const long row = p.has_order ? order[i] : i, before = p.has_order ? order[i - 1] : i - 1;
    starts_here = rows[row * p.width + c] != rows[before * p.width + c];
  }
  starts[i] = starts_here;
}

kernel void number_runs(device N* numbers, device const long* ends, device const long* order,
                        constant RunParams& p, uint i [[thread_position_in_grid]]) {
  long low = 0, high = p.ends;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    if (ends[middle] <= long(i)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  numbers[p.has_order ? order[i] : i] = N(low);
}

kernel void measure_runs(device long* lengths, device const long* ends, constant RunParams& p,
                         uint run [[thread_position_in_grid]]) {
  const long begin = run > 0 ? ends[run - 1] : 0;
  lengths[run] = (long(run) < p.ends ? ends[run] : p.count) - begin;
}
)MTL";

}  // namespace

Error order_rows(const SlimTensor& rows, const SlimTensor& order) {
  const RunParams params{rows.size(0), rows.size(1), 0, false};
  return launch(kSource, {{"T", rows.dtype()}, {"N", DType::Long}}, "order_rows",
                {memory(order), memory(rows), bytes(params)},
                {static_cast<uint64_t>(params.count), 1, 1});
}

Error mark_runs(const SlimTensor& rows, const SlimTensor* order, const SlimTensor& starts) {
  const RunParams params{rows.size(0), rows.size(1), 0, order != nullptr};
  return launch(kSource, {{"T", rows.dtype()}, {"N", DType::Long}}, "mark_runs",
                {memory(starts), memory(rows), memory(order ? *order : rows), bytes(params)},
                {static_cast<uint64_t>(params.count), 1, 1});
}

Error number_runs(const aoti::RunsCall& call) {
  const RunParams params{call.count, 0, call.ends.numel(), call.order != nullptr};
  if (call.numbers) {
    PTERON_RETURN_IF_ERROR(launch(kSource, {{"T", DType::Int}, {"N", call.numbers->dtype()}},
                                  "number_runs",
                                  {memory(*call.numbers), memory(call.ends),
                                   memory(call.order ? *call.order : call.ends), bytes(params)},
                                  {static_cast<uint64_t>(call.count), 1, 1}));
  }
  if (!call.lengths) return Error::Ok;
  return launch(kSource, {{"T", DType::Int}, {"N", DType::Long}}, "measure_runs",
                {memory(*call.lengths), memory(call.ends), bytes(params)},
                {static_cast<uint64_t>(call.lengths->numel()), 1, 1});
}

}  // namespace pteron::metal
