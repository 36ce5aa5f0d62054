#include "pteron/backends/cuda/runtime/shims/rows.h"

#include <algorithm>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::cuda {
namespace {

using slim::SlimTensor;
using slim::TensorPtr;

// `tensor` seen with `dim` moved to the end.
Result<TensorPtr> moved_to_end(const SlimTensor& tensor, size_t dim) {
  int64_t sizes[slim::kMaxDims], strides[slim::kMaxDims];
  size_t at = 0;
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (i == dim) continue;
    sizes[at] = tensor.size(i);
    strides[at++] = tensor.stride(i);
  }
  if (tensor.dim() > 0) {
    sizes[at] = tensor.size(dim);
    strides[at++] = tensor.stride(dim);
  }
  auto moved = std::make_unique<SlimTensor>();
  PTERON_RETURN_IF_ERROR(moved->set(tensor.storage(), Span<const int64_t>(sizes, at),
                                    Span<const int64_t>(strides, at), tensor.storage_offset(),
                                    tensor.dtype()));
  return moved;
}

Result<TensorPtr> contiguous_like(const SlimTensor& tensor) {
  int64_t strides[slim::kMaxDims];
  slim::contiguous_strides(tensor.sizes(), strides);
  return slim::make_tensor(tensor.sizes(), Span<const int64_t>(strides, tensor.dim()),
                           tensor.dtype(), tensor.device());
}

}  // namespace

Result<TensorPtr> rows_along(const SlimTensor& tensor, size_t dim) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr moved, moved_to_end(tensor, dim));
  if (moved->is_contiguous()) return moved;
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, contiguous_like(*moved));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, *moved, true));
  return copy;
}

void strides_like(const SlimTensor& like, Span<const int64_t> sizes, int64_t* strides) {
  size_t order[slim::kMaxDims];  // outermost first
  for (size_t i = 0; i < sizes.size(); ++i) order[i] = i;
  std::stable_sort(order, order + sizes.size(), [&](size_t a, size_t b) {
    // Repeated dimensions and those of size 1 stay where they are.
    if (like.stride(a) == 0 || like.stride(b) == 0 || like.size(a) == 1 || like.size(b) == 1) {
      return false;
    }
    return like.stride(a) > like.stride(b);
  });
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
}

Result<RowResult> RowResult::make(const SlimTensor& result, size_t dim) {
  RowResult made;
  PTERON_ASSIGN_OR_RETURN(made.moved_, moved_to_end(result, dim));
  if (!made.moved_->is_contiguous()) {
    PTERON_ASSIGN_OR_RETURN(made.rows_, contiguous_like(*made.moved_));
  }
  return made;
}

Error RowResult::finish() {
  return rows_ ? slim::copy_tensor(*moved_, *rows_, true) : Error(Error::Ok);
}

}  // namespace pteron::cuda
