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

}  // namespace pteron::cpu
