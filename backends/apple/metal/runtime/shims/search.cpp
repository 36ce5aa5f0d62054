#include "pteron/backends/aoti/ops/search/search.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

#define PTERON_SEARCH_PARAMS                   \
  struct SearchParams {                        \
    int64_t length, per_row, right, has_order; \
  };
PTERON_SEARCH_PARAMS

// searchsorted: a thread per value.
const char kSource[] = PTERON_TEXT(PTERON_SEARCH_PARAMS) R"MTL(
kernel void search_rows(device OUT* out, device const T* sequence, device const long* order,
                        device const T* values, constant SearchParams& p,
                        uint i [[thread_position_in_grid]]) {
  const long row = i / p.per_row * p.length;
  const T_SUM value = values[i];
  long low = 0, high = p.length;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    long at = p.has_order ? order[row + middle] : middle;
    if (at < 0 || at >= p.length) at = middle;
    const T_SUM found = sequence[row + at];
    if (p.right ? !(found > value) : !(found >= value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[i] = OUT(low);
}
)MTL";

}  // namespace

Error search(const aoti::SearchCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr sequence, converted(call.sequence, call.compared));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr values, converted(call.values, call.compared));
  TensorPtr order;
  if (call.sorter) {
    PTERON_ASSIGN_OR_RETURN(order, slim::contiguous_tensor(*call.sorter));
  }
  const SearchParams params{call.length(), call.per_row(), call.right, order != nullptr};
  return launch(kSource, {{"T", call.compared}, {"OUT", call.out.dtype()}}, "search_rows",
                {memory(call.out), memory(*sequence), memory(order ? *order : *sequence),
                 memory(*values), bytes(params)},
                {static_cast<uint64_t>(call.out.numel()), 1, 1});
}

}  // namespace pteron::metal
