#include "pteron/backends/aoti/ops/histogram/histogram.h"

#include "pteron/backends/cuda/runtime/kernels/histogram.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error histogram(const aoti::HistogramCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  return count_by_range(type_of(*x), x->data(), x->numel(), call.low, call.high, call.out.data(),
                        call.out.numel(), scope.device(), scope.stream());
}

Error range(const aoti::RangeCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  IntegerRange found{};
  PTERON_RETURN_IF_ERROR(range_of_integers(type_of(*x), x->data(), x->numel(), &found,
                                           scope.device(), scope.stream()));
  call.low = found.low;
  call.high = found.high;
  return Error::Ok;
}

Error count(const aoti::CountCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(call.out));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  const auto dtype = type_of(*x);
  if (!call.weights) {
    return count_integers(dtype, x->data(), x->numel(), call.out.data_as<int64_t>(),
                          scope.stream());
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr weights, slim::contiguous_tensor(*call.weights));
  return add_weights(dtype, x->data(), x->numel(), type_of(*weights), weights->data(),
                     type_of(call.out), call.out.data(), scope.stream());
}

}  // namespace pteron::cuda
