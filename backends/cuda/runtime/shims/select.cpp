#include "pteron/backends/aoti/ops/select.h"

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/cuda/runtime/kernels/select.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/kernels.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"

namespace pteron::cuda {

Error select(const aoti::SelectCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(slim::TensorPtr x, rows_along(call.self, call.dim));
  const Selection selection{static_cast<SelectionKind>(call.kind), call.k, call.values.numel(),
                            aoti::size_along(call.self, call.dim)};
  return select_of_rows(selection, static_cast<ScalarType>(call.self.dtype()), x->data(),
                        call.values.data(), call.indices.data_as<int64_t>(), scope.device(),
                        scope.stream());
}

}  // namespace pteron::cuda
