#include "pteron/backends/aoti/ops/masked/masked.h"

#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error scan(const aoti::ScanCall& call);  // scan.cpp

namespace {

const char kSource[] = R"MTL(
// `ranks` is the inclusive scan of the mask.
kernel void scatter_where(device T* out, device const bool* mask, device const long* ranks,
                          device const T* source, constant long& count,
                          uint i [[thread_position_in_grid]]) {
  if (mask[i] && ranks[i] <= count) out[i] = source[ranks[i] - 1];
}
)MTL";

}  // namespace

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  const int64_t count = call.mask.numel();
  if (count == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ranks,
                          aoti::make_row_major(call.mask.sizes(), DType::Long, call.mask.device()));
  PTERON_RETURN_IF_ERROR(
      scan({aoti::ScanCall::Kind::kSum, call.mask, 0, *ranks, /*indices=*/nullptr}));
  const int64_t source_count = call.source.numel();
  return launch(kSource, {{"T", dtype_of_bytes(call.out.item_size())}}, "scatter_where",
                {memory(call.out), memory(call.mask), memory(*ranks), memory(call.source),
                 bytes(source_count)},
                {static_cast<uint64_t>(count), 1, 1});
}

}  // namespace pteron::metal
