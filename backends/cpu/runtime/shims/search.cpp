#include "pteron/backends/aoti/ops/search/search.h"

#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

template <typename T>
int64_t position(const T* sorted, const int64_t* order, int64_t count, T value, bool right) {
  using Wide = slim::accumulate_t<T>;
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const Wide at = sorted[order ? order[middle] : middle];
    const bool before =
        right ? !(at > static_cast<Wide>(value)) : !(at >= static_cast<Wide>(value));
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Error check_indices(const SlimTensor& order, int64_t length) {
  for (int64_t i = 0; i < order.numel(); ++i) {
    const int64_t at = order.data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(at >= 0 && at < length, Error::InvalidArgument,
                           "found index %lld in the sorter, expected less than %lld",
                           static_cast<long long>(at), static_cast<long long>(length));
  }
  return Error::Ok;
}

}  // namespace

Error search(const aoti::SearchCall& call) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr sequence, converted(call.sequence, call.compared));
  PTERON_ASSIGN_OR_RETURN(TensorPtr values, converted(call.values, call.compared));
  const int64_t length = call.length(), per_row = call.per_row();
  TensorPtr order;
  if (call.sorter) {
    PTERON_ASSIGN_OR_RETURN(order, slim::contiguous_tensor(*call.sorter));
    PTERON_RETURN_IF_ERROR(check_indices(*order, length));
  }
  PTERON_DISPATCH_REAL(call.compared, T, {
    parallel_for(values->numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / per_row * length;
        const int64_t found = position<T>(sequence->data_as<const T>() + row,
                                          order ? order->data_as<const int64_t>() + row : nullptr,
                                          length, values->data_as<const T>()[i], call.right);
        if (call.out.dtype() == DType::Int) {
          call.out.data_as<int32_t>()[i] = static_cast<int32_t>(found);
        } else {
          call.out.data_as<int64_t>()[i] = found;
        }
      }
    });
    return Error::Ok;
  });
  return aoti::no_kernel_for(call.values);
}

}  // namespace pteron::cpu
