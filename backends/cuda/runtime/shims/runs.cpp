#include "pteron/backends/aoti/ops/unique/runs.h"

#include "pteron/backends/cuda/runtime/kernels/runs.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

Matrix matrix_of(const SlimTensor& rows) {
  return {type_of(rows), rows.data(), rows.size(0), rows.size(1)};
}

const int64_t* numbers_of(const SlimTensor* tensor) {
  return tensor ? tensor->data_as<const int64_t>() : nullptr;
}

}  // namespace

Error order_rows(const SlimTensor& rows, const SlimTensor& order) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(rows));
  return order_rows(matrix_of(rows), order.data_as<int64_t>(), scope.device(), scope.stream());
}

Error mark_runs(const SlimTensor& rows, const SlimTensor* order, const SlimTensor& starts) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(rows));
  return mark_runs(matrix_of(rows), numbers_of(order), starts.data_as<bool>(), scope.stream());
}

Error number_runs(const aoti::RunsCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.ends));
  const Runs runs{call.count, call.ends.data_as<const int64_t>(), call.ends.numel()};
  if (call.numbers) {
    PTERON_RETURN_IF_ERROR(number_runs(runs, numbers_of(call.order),
                                       call.numbers->dtype() == DType::Long, call.numbers->data(),
                                       scope.stream()));
  }
  if (!call.lengths) return Error::Ok;
  return measure_runs(runs, call.lengths->numel(), call.lengths->data_as<int64_t>(),
                      scope.stream());
}

}  // namespace pteron::cuda
