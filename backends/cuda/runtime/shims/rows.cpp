#include "pteron/backends/cuda/runtime/shims/rows.h"

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/ops/views.h"
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
  return aoti::make_view(tensor, {sizes, at}, {strides, at}, tensor.storage_offset());
}

}  // namespace

Result<TensorPtr> rows_along(const SlimTensor& tensor, size_t dim) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr moved, moved_to_end(tensor, dim));
  if (moved->is_contiguous()) return moved;
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy,
                          aoti::make_row_major(moved->sizes(), moved->dtype(), moved->device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, *moved, true));
  return copy;
}

Result<RowResult> RowResult::make(const SlimTensor& result, size_t dim) {
  RowResult made;
  PTERON_ASSIGN_OR_RETURN(made.moved_, moved_to_end(result, dim));
  if (!made.moved_->is_contiguous()) {
    PTERON_ASSIGN_OR_RETURN(
        made.rows_, aoti::make_row_major(made.moved_->sizes(), result.dtype(), result.device()));
  }
  return made;
}

Error RowResult::finish() {
  return rows_ ? slim::copy_tensor(*moved_, *rows_, true) : Error(Error::Ok);
}

}  // namespace pteron::cuda
