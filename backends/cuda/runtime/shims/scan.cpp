#include "pteron/backends/aoti/ops/scan/scan.h"

#include "pteron/backends/cuda/runtime/kernels/scan.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error scan(const aoti::ScanCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult out, RowResult::make(call.out, call.dim));
  const int64_t n = aoti::size_along(call.self, call.dim);
  const Scan scan{static_cast<ScanKind>(call.kind), n == 0 ? 0 : call.self.numel() / n, n};
  const auto x_dtype = type_of(call.self);
  if (!call.indices) {
    const auto out_dtype = type_of(call.out);
    PTERON_RETURN_IF_ERROR(
        scan_rows(scan, x_dtype, x->data(), out_dtype, out.data(), scope.stream()));
    return out.finish();
  }
  PTERON_ASSIGN_OR_RETURN(RowResult indices, RowResult::make(*call.indices, call.dim));
  PTERON_RETURN_IF_ERROR(scan_extremes(scan, x_dtype, x->data(), out.data(),
                                       static_cast<int64_t*>(indices.data()), scope.stream()));
  PTERON_RETURN_IF_ERROR(out.finish());
  return indices.finish();
}

}  // namespace pteron::cuda
