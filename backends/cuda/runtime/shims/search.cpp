#include "pteron/backends/aoti/ops/search/search.h"

#include "pteron/backends/cuda/runtime/kernels/search.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error search(const aoti::SearchCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.values));
  PTERON_ASSIGN_OR_RETURN(TensorPtr sequence, slim::contiguous_tensor(call.sequence));
  PTERON_ASSIGN_OR_RETURN(TensorPtr values, slim::contiguous_tensor(call.values));
  TensorPtr order;
  if (call.sorter) {
    PTERON_ASSIGN_OR_RETURN(order, slim::contiguous_tensor(*call.sorter));
  }
  Search search;
  search.compared = static_cast<ScalarType>(call.compared);
  search.sequence_dtype = type_of(*sequence);
  search.sequence = sequence->data();
  search.order = order ? order->data_as<const int64_t>() : nullptr;
  search.length = call.length();
  search.values_dtype = type_of(*values);
  search.values = values->data();
  search.count = values->numel();
  search.per_row = call.per_row();
  search.right = call.right;
  return search_rows(search, type_of(call.out), call.out.data(), scope.stream());
}

}  // namespace pteron::cuda
