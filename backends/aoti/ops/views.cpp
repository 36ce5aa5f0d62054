#include "pteron/backends/aoti/ops/views.h"

#include <algorithm>
#include <string>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::aoti {

using slim::SlimTensor;
using slim::TensorPtr;

namespace {

std::string text_of(Span<const int64_t> sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace

Result<TensorPtr> make_view(const SlimTensor& tensor, Span<const int64_t> sizes,
                            Span<const int64_t> strides, int64_t storage_offset,
                            std::optional<slim::DType> dtype) {
  auto view = std::make_unique<SlimTensor>();
  PTERON_RETURN_IF_ERROR(
      view->set(tensor.storage(), sizes, strides, storage_offset, dtype.value_or(tensor.dtype())));
  return view;
}

bool broadcasts_to(const SlimTensor& tensor, Span<const int64_t> sizes) {
  bool fits = tensor.dim() <= sizes.size();
  for (size_t d = 0; fits && d < tensor.dim(); ++d) {
    fits = tensor.size(d) == 1 || tensor.size(d) == sizes[sizes.size() - tensor.dim() + d];
  }
  return fits;
}

Result<TensorPtr> broadcast_to(const SlimTensor& tensor, const char* name,
                               Span<const int64_t> sizes) {
  PTERON_CHECK_OR_RETURN(broadcasts_to(tensor, sizes), Error::InvalidArgument,
                         "found %s %s, expected sizes that broadcast to %s", name,
                         tensor.describe().c_str(), text_of(sizes).c_str());
  int64_t strides[slim::kMaxDims] = {};
  for (size_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) != 1) strides[sizes.size() - tensor.dim() + d] = tensor.stride(d);
  }
  return make_view(tensor, sizes, {strides, sizes.size()}, tensor.storage_offset());
}

Result<TensorPtr> flattened(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(tensor));
  const int64_t size = tensor.numel(), stride = 1;
  return make_view(*dense, {&size, 1}, {&stride, 1}, dense->storage_offset());
}

Result<TensorPtr> apart_from(const SlimTensor& target, const SlimTensor& source) {
  return slim::may_overlap(target, source) ? slim::clone_tensor(source) : slim::make_alias(source);
}

Error CommonSizes::add(const SlimTensor& tensor, const char* name) {
  const size_t dim = tensor.dim() - matrix_;
  if (dim > dim_) {
    std::copy_backward(sizes_, sizes_ + dim_, sizes_ + dim);
    std::fill(sizes_, sizes_ + dim - dim_, 1);
    dim_ = dim;
  }
  for (size_t d = 0; d < dim; ++d) {
    int64_t& size = sizes_[dim_ - dim + d];
    PTERON_CHECK_OR_RETURN(size == tensor.size(d) || size == 1 || tensor.size(d) == 1,
                           Error::InvalidArgument, "found %s %s, which does not broadcast with %s",
                           name, tensor.describe().c_str(), text_of(*this).c_str());
    if (size == 1) size = tensor.size(d);
  }
  return Error::Ok;
}

}  // namespace pteron::aoti
