#include "pteron/runtime/core/tensor_ptr.h"

#include "pteron/runtime/core/strided_copy.h"

namespace pteron::tensor_ptr_internal {

Result<TensorPtr> make(ScalarType dtype, const std::vector<int64_t>& sizes, void* data,
                       size_t count, size_t item_size, std::shared_ptr<void> owner) {
  struct Owned {
    Tensor tensor;
    std::shared_ptr<void> owner;
  };
  PTERON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::make(dtype, sizes, nullptr));
  PTERON_CHECK_OR_RETURN(
      item_size == element_size(dtype), Error::InvalidType,
      "elements of %zu bytes were given for a tensor of %s, which takes %zu each", item_size,
      name_of(dtype), element_size(dtype));
  PTERON_CHECK_OR_RETURN(static_cast<int64_t>(count) == tensor.numel(), Error::InvalidArgument,
                         "%zu elements were given for %s, expected %lld", count,
                         tensor.describe().c_str(), static_cast<long long>(tensor.numel()));
  tensor.set_data(data, count * item_size);
  const auto owned = std::make_shared<Owned>(Owned{tensor, std::move(owner)});
  return TensorPtr(owned, &owned->tensor);
}

Error copy_elements(const Tensor& tensor, ScalarType dtype, size_t item_size, void* target) {
  const bool is_bool = tensor.dtype() == ScalarType::Bool && dtype == ScalarType::Byte;
  PTERON_CHECK_OR_RETURN(tensor.dtype() == dtype || is_bool, Error::InvalidType,
                         "the tensor is %s, expected a vector of its elements, not of %s",
                         tensor.describe().c_str(), name_of(dtype));
  PTERON_CHECK_OR_RETURN(
      tensor.device() == Device(), Error::InvalidArgument,
      "the tensor is on %s; lower the program so that its outputs are copied to the host",
      describe(tensor.device()).c_str());
  PTERON_CHECK_OR_RETURN(tensor.data() || tensor.numel() == 0, Error::InvalidArgument,
                         "the tensor has no memory; run the method first");
  PTERON_ASSIGN_OR_RETURN(const Tensor in_order, Tensor::make(dtype, tensor.sizes(), target));
  copy_strided(target, in_order.strides().data(), tensor.data(), tensor.strides().data(),
               tensor.sizes().data(), tensor.dim(), item_size);
  return Error::Ok;
}

}  // namespace pteron::tensor_ptr_internal
