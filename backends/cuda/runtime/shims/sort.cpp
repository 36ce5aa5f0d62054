#include "pteron/backends/aoti/ops/sort/sort.h"

#include "pteron/backends/cuda/runtime/kernels/sort.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error sort(const aoti::SortCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult values, RowResult::make(call.values, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult indices, RowResult::make(call.indices, call.dim));
  const int64_t n = aoti::size_along(call.self, call.dim);
  const int64_t rows = n == 0 ? 0 : call.self.numel() / n;
  PTERON_RETURN_IF_ERROR(sort_rows(type_of(call.self), x->data(), rows, n, call.descending,
                                   call.count, values.data(), static_cast<int64_t*>(indices.data()),
                                   scope.device(), scope.stream()));
  PTERON_RETURN_IF_ERROR(values.finish());
  return indices.finish();
}

}  // namespace pteron::cuda
