#include "pteron/backends/aoti/ops/results.h"

#include <algorithm>

namespace pteron::aoti {

using slim::SlimTensor;
using slim::TensorPtr;

Result<TensorPtr> make_row_major(Span<const int64_t> sizes, slim::DType dtype, Device device) {
  int64_t strides[slim::kMaxDims];
  PTERON_CHECK_OR_RETURN(sizes.size() <= slim::kMaxDims, Error::InvalidArgument,
                         "the result would have %zu dimensions, expected at most %zu", sizes.size(),
                         slim::kMaxDims);
  slim::contiguous_strides(sizes, strides);
  return slim::make_tensor(sizes, {strides, sizes.size()}, dtype, device);
}

Result<TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype, Device device) {
  int64_t strides[slim::kMaxDims];
  slim::channels_last_strides(sizes, strides);
  return slim::make_tensor(sizes, {strides, sizes.size()}, dtype, device);
}

Result<TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype, Device device,
                                    std::initializer_list<const int64_t*> operand_strides) {
  int64_t strides[slim::kMaxDims];
  slim::ordered_strides(sizes, operand_strides, strides);
  return slim::make_tensor(sizes, {strides, sizes.size()}, dtype, device);
}

Result<TensorPtr> make_ordered_like(const SlimTensor& operand, slim::DType dtype) {
  return make_ordered_like(operand.sizes(), dtype, operand.device(), {operand.strides().data()});
}

Sizes::Sizes(const SlimTensor& tensor) : dim(tensor.dim()) {
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), values);
}

void Sizes::reduce(size_t d, bool keepdim) {
  if (dim == 0) return;
  values[d] = 1;
  if (!keepdim) std::copy(values + d + 1, values + dim--, values + d);
}

Error check_ordered(const SlimTensor& self) {
  PTERON_CHECK_OR_RETURN(!slim::is_complex(self.dtype()), Error::InvalidType,
                         "found self %s, complex numbers have no order", self.describe().c_str());
  return Error::Ok;
}

Error check_out(const SlimTensor& out, const SlimTensor& self) {
  bool fits = out.dtype() == self.dtype() && out.dim() == self.dim();
  for (size_t d = 0; fits && d < out.dim(); ++d) {
    fits = out.size(d) == self.size(d) && (out.stride(d) != 0 || out.size(d) <= 1);
  }
  PTERON_CHECK_OR_RETURN(
      fits, Error::InvalidArgument,
      "found out %s, self %s, expected equal dtypes and sizes, and no repeated elements in out",
      out.describe().c_str(), self.describe().c_str());
  return Error::Ok;
}

Error no_kernel_for(const SlimTensor& tensor) {
  return make_error(Error::NotSupported, "no kernel for the dtype of %s",
                    tensor.describe().c_str());
}

Error spread(Span<const int64_t> list, size_t dims, const char* name, int64_t least,
             int64_t* values) {
  PTERON_CHECK_OR_RETURN(list.size() <= 1 || list.size() == dims, Error::InvalidArgument,
                         "found %s of %zu numbers, expected %zu", name, list.size(), dims);
  for (size_t d = 0; d < dims && !list.empty(); ++d) {
    const int64_t value = list[list.size() == 1 ? 0 : d];
    PTERON_CHECK_OR_RETURN(value >= least && value <= INT32_MAX, Error::InvalidArgument,
                           "found %s %lld, expected %lld to %d", name,
                           static_cast<long long>(value), static_cast<long long>(least), INT32_MAX);
    values[3 - dims + d] = value;
  }
  return Error::Ok;
}

}  // namespace pteron::aoti
