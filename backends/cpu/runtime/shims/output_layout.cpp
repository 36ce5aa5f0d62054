#include "pteron/backends/cpu/runtime/shims/output_layout.h"

#include <algorithm>

namespace pteron::cpu {

Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype) {
  int64_t strides[slim::kMaxDims];
  slim::channels_last_strides(sizes, strides);
  return slim::make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, Device{});
}

Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          std::initializer_list<const int64_t*> operand_strides) {
  int64_t strides[slim::kMaxDims];
  slim::ordered_strides(sizes, operand_strides, strides);
  return slim::make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, Device{});
}

Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype) {
  return make_ordered_like(operand.sizes(), dtype, {operand.strides().data()});
}

Result<Broadcast> broadcast(const slim::SlimTensor& a, const slim::SlimTensor& b) {
  Broadcast result;
  result.dim = std::max(a.dim(), b.dim());
  for (size_t i = 0; i < result.dim; ++i) {
    // Counted from the back.
    const size_t at = result.dim - 1 - i;
    const int64_t x = i < a.dim() ? a.size(a.dim() - 1 - i) : 1;
    const int64_t y = i < b.dim() ? b.size(b.dim() - 1 - i) : 1;
    PTERON_CHECK_OR_RETURN(x == y || x == 1 || y == 1, Error::InvalidArgument,
                           "found %s and %s, expected sizes that broadcast", a.describe().c_str(),
                           b.describe().c_str());
    result.sizes[at] = x == 1 ? y : x;
    result.a[at] = x == 1 ? 0 : a.stride(a.dim() - 1 - i);
    result.b[at] = y == 1 ? 0 : b.stride(b.dim() - 1 - i);
  }
  return result;
}

}  // namespace pteron::cpu
