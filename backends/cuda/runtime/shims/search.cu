#include "pteron/backends/aoti/ops/search/search.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

// Kernel arguments.
struct Search {
  Numbers sequence;      // rows of `length` elements
  const int64_t* order;  // of each row, or null; indices outside count as the nearest
  int64_t length;
  Numbers values;
  int64_t count, per_row;
  bool right;
};

template <typename T>
__device__ int64_t find(const Search& search, int64_t i) {
  const int64_t row = i / search.per_row * search.length;
  const T value = search.values.load<T>(i);
  return first_that(search.length, [&](int64_t k) {
    if (search.order) {
      const int64_t at = search.order[row + k];
      k = at < 0 ? 0 : at < search.length ? at : search.length - 1;
    }
    const T element = search.sequence.load<T>(row + k);
    return search.right ? element > value : element >= value;
  });
}

template <typename T>
__global__ void search_kernel(__grid_constant__ const Search search, Numbers out) {
  for_each_item(search.count, [&](int64_t i) { out.store<int64_t>(i, find<T>(search, i)); });
}

}  // namespace

Error search(const aoti::SearchCall& call) {
  PTERON_CHECK_OR_RETURN(!is_float8(type_of(call.sequence)) && !is_float8(type_of(call.values)),
                         Error::InvalidType, "search: found %s in %s, expected other types",
                         slim::name_of(call.values.dtype()), slim::name_of(call.sequence.dtype()));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.values));
  PTERON_ASSIGN_OR_RETURN(TensorPtr sequence, slim::contiguous_tensor(call.sequence));
  PTERON_ASSIGN_OR_RETURN(TensorPtr values, slim::contiguous_tensor(call.values));
  TensorPtr order;
  if (call.sorter) {
    PTERON_ASSIGN_OR_RETURN(order, slim::contiguous_tensor(*call.sorter));
  }
  const Search search{numbers_of(*sequence),
                      order ? order->data_as<const int64_t>() : nullptr,
                      call.length(),
                      numbers_of(*values),
                      values->numel(),
                      call.per_row(),
                      call.right};
  const auto kernel = call.compared == DType::Double           ? search_kernel<double>
                      : slim::is_floating_point(call.compared) ? search_kernel<float>
                      : call.compared == DType::UInt64         ? search_kernel<uint64_t>
                                                               : search_kernel<int64_t>;
  return launch_items(search.count, scope.stream(), "searching sorted rows", kernel, search,
                      numbers_of(call.out));
}

}  // namespace pteron::cuda
