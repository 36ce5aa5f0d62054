#include "pteron/backends/aoti/ops/distance/distance.h"

#include "pteron/backends/cuda/runtime/kernels/distance.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error distance(const aoti::DistanceCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  const size_t rank = call.x1.dim();
  PTERON_ASSIGN_OR_RETURN(TensorPtr x1, rows_along(call.x1, rank - 1));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x2, rows_along(call.x2, rank - 1));
  Distances d;
  d.rows = x1->size(rank - 2);
  d.cols = x2->size(rank - 2);
  d.length = x1->size(rank - 1);
  d.batch = call.each_once ? 1 : call.out.numel() / (d.rows * d.cols);
  d.p = call.p;
  d.each_once = call.each_once;
  return distances(d, type_of(call.out), x1->data(), x2->data(), call.out.data(), scope.stream());
}

}  // namespace pteron::cuda
