#include "pteron/backends/aoti/ops/unique/runs.h"

#include "pteron/backends/aoti/ops/masked/masked.h"
#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error scan(const aoti::ScanCall& call);  // scan.cpp

Error order_rows(const SlimTensor& rows, const SlimTensor& order) {
  const RunParams params{rows.size(0), rows.size(1), 0, false};
  return launch(kRunSource, {{"T", rows.dtype()}, {"N", DType::Long}}, "order_rows",
                {memory(order), memory(rows), bytes(params)},
                {static_cast<uint64_t>(params.count), 1, 1});
}

Error mark_runs(const SlimTensor& rows, const SlimTensor* order, const SlimTensor& starts) {
  const RunParams params{rows.size(0), rows.size(1), 0, order != nullptr};
  return launch(kRunSource, {{"T", rows.dtype()}, {"N", DType::Long}}, "mark_runs",
                {memory(starts), memory(rows), memory(order ? *order : rows), bytes(params)},
                {static_cast<uint64_t>(params.count), 1, 1});
}

Error number_runs(const aoti::RunsCall& call) {
  const RunParams params{call.count, 0, call.ends.numel(), call.order != nullptr};
  if (call.numbers) {
    PTERON_RETURN_IF_ERROR(launch(kRunSource, {{"T", DType::Int}, {"N", call.numbers->dtype()}},
                                  "number_runs",
                                  {memory(*call.numbers), memory(call.ends),
                                   memory(call.order ? *call.order : call.ends), bytes(params)},
                                  {static_cast<uint64_t>(call.count), 1, 1}));
  }
  if (!call.lengths) return Error::Ok;
  return launch(kRunSource, {{"T", DType::Int}, {"N", DType::Long}}, "measure_runs",
                {memory(*call.lengths), memory(call.ends), bytes(params)},
                {static_cast<uint64_t>(call.lengths->numel()), 1, 1});
}

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  const int64_t count = call.mask.numel();
  if (count == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ranks,
                          aoti::make_row_major(call.mask.sizes(), DType::Long, call.mask.device()));
  PTERON_RETURN_IF_ERROR(
      scan({aoti::ScanCall::Kind::kSum, call.mask, 0, *ranks, /*indices=*/nullptr}));
  const RunParams params{call.source.numel(), 0, 0, false};
  return launch(
      kRunSource, {{"T", dtype_of_bytes(call.out.item_size())}, {"N", DType::Long}},
      "scatter_where",
      {memory(call.out), memory(call.mask), memory(*ranks), memory(call.source), bytes(params)},
      {static_cast<uint64_t>(count), 1, 1});
}

}  // namespace pteron::metal
