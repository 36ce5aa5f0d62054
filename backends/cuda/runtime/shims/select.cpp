#include "pteron/backends/aoti/ops/select/select.h"

#include "pteron/backends/cuda/runtime/kernels/select.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error select(const aoti::SelectCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  const Selection selection{static_cast<SelectionKind>(call.kind), call.k, call.values.numel(),
                            aoti::size_along(call.self, call.dim)};
  return select_of_rows(selection, type_of(call.self), x->data(), call.values.data(),
                        call.indices.data_as<int64_t>(), scope.device(), scope.stream());
}

}  // namespace pteron::cuda
