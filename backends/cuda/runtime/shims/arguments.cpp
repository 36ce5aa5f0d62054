#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {

using slim::SlimTensor;

Error check_tensor(const SlimTensor* tensor, const char* name) {
  PTERON_CHECK_OR_RETURN(tensor != nullptr, Error::InvalidArgument, "%s is null", name);
  PTERON_CHECK_OR_RETURN(tensor->is_defined(), Error::InvalidArgument, "%s is undefined", name);
  PTERON_CHECK_OR_RETURN(tensor->device().type == DeviceType::CUDA, Error::InvalidArgument,
                         "%s is on the CPU, expected a CUDA tensor; copy it to the device first",
                         name);
  return Error::Ok;
}

Error check_tensors(std::initializer_list<NamedTensor> tensors) {
  const NamedTensor* first = nullptr;
  for (const NamedTensor& named : tensors) {
    PTERON_RETURN_IF_ERROR(check_tensor(named.tensor, named.name));
    if (first == nullptr) first = &named;
    PTERON_CHECK_OR_RETURN(
        named.tensor->device() == first->tensor->device(), Error::InvalidArgument,
        "%s is on cuda:%d and %s on cuda:%d; all tensors must be on one device", named.name,
        named.tensor->device().index, first->name, first->tensor->device().index);
  }
  return Error::Ok;
}

Error check_dim(const SlimTensor& tensor, const char* name, size_t dim) {
  PTERON_CHECK_OR_RETURN(tensor.dim() == dim, Error::InvalidArgument,
                         "%s is %s, expected %zu dimensions", name, tensor.describe().c_str(), dim);
  return Error::Ok;
}

Error check_writable(const SlimTensor& tensor, const char* name) {
  for (size_t i = 0; i < tensor.dim(); ++i) {
    PTERON_CHECK_OR_RETURN(tensor.stride(i) != 0 || tensor.size(i) <= 1, Error::InvalidArgument,
                           "%s %s repeats elements in dimension %zu and cannot be written to", name,
                           tensor.describe().c_str(), i);
  }
  return Error::Ok;
}

std::string describe(std::initializer_list<NamedTensor> tensors) {
  std::string text;
  for (const NamedTensor& named : tensors) {
    if (!text.empty()) text += ", ";
    text += std::string(named.name) + " " + named.tensor->describe();
  }
  return text;
}

}  // namespace pteron::cuda
