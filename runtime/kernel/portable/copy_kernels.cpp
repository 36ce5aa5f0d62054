// Copies of tensors and slices, and views. Dtypes are equal.
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

// Resizes `out` to the sizes of `from` and copies the elements.
Error copy_into(const View& from, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, from.shape()));
  return copy_elements(from, view_of(out));
}

bool is_contiguous(const Tensor& tensor) {
  int64_t stride = 1;
  for (size_t d = tensor.dim(); d-- > 0;) {
    if (tensor.size(d) != 1 && tensor.strides()[d] != stride && tensor.numel() > 0) return false;
    stride *= tensor.size(d);
  }
  return true;
}

}  // namespace

// In place: writes `self` and returns it.
PTERON_DEFINE_KERNEL(copy_, (Tensor & self, const Tensor& source, Ignored)) {
  return copy_elements(view_of(source), view_of(self));
}

// The layout is that of `out`.
PTERON_DEFINE_KERNEL(clone_out, (const Tensor& self, Ignored, Tensor& out)) {
  return copy_into(view_of(self), out);
}
PTERON_DEFINE_KERNEL(clone_dim_order_out, (const Tensor& self, Ignored, Ignored, Tensor& out)) {
  return copy_into(view_of(self), out);
}

PTERON_DEFINE_KERNEL(select_copy_out,
                     (const Tensor& self, int64_t dim, int64_t index, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, checked_dim(self, dim));
  const int64_t size = self.size(d);
  PTERON_CHECK_OR_RETURN(index >= -size && index < size, Error::InvalidArgument,
                         "index %lld is out of range in dimension %zu of %s",
                         static_cast<long long>(index), d, self.describe().c_str());
  return copy_into(view_of(self).selected(d, index < 0 ? index + size : index), out);
}

// A view without a copy: `out` gets the pointer of `self`. One size may be -1 (inferred).
PTERON_DEFINE_KERNEL(et_view, (const Tensor& self, Ints sizes, Handle view)) {
  Tensor& out = view.tensor;
  int64_t shape[kMaxTensorDims];
  int64_t known = 1;
  int64_t* unknown = nullptr;
  bool valid = sizes.size() <= kMaxTensorDims;
  for (size_t i = 0; valid && i < sizes.size(); ++i) {
    shape[i] = sizes[i];
    if (shape[i] == -1) {
      valid = !unknown;
      unknown = &shape[i];
    } else {
      valid = shape[i] >= 0 && !__builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (valid && unknown) {
    valid = known > 0 && self.numel() % known == 0;
    if (valid) *unknown = self.numel() / known;
  } else {
    valid = valid && known == self.numel();
  }
  PTERON_CHECK_OR_RETURN(
      valid && is_contiguous(self) && self.dtype() == out.dtype() && self.device() == out.device(),
      Error::InvalidArgument, "%s cannot be viewed as %s in the given %zu sizes without a copy",
      self.describe().c_str(), out.describe().c_str(), sizes.size());
  return out.share_data(self, {shape, sizes.size()});
}

// copy_to[index] = copy_from. A bounded `copy_to` grows to index + 1 slices.
PTERON_DEFINE_KERNEL(et_copy_index, (Tensor & copy_to, const Tensor& copy_from, int64_t index)) {
  const bool fits = copy_to.dim() == copy_from.dim() + 1 && index >= 0 && index < INT64_MAX;
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "%s cannot be slice %lld of %s",
                         copy_from.describe().c_str(), static_cast<long long>(index),
                         copy_to.describe().c_str());
  if (copy_to.dynamism() != ShapeDynamism::Static) {
    int64_t shape[kMaxTensorDims] = {index + 1};
    for (size_t d = 0; d < copy_from.dim(); ++d) shape[d + 1] = copy_from.size(d);
    PTERON_RETURN_IF_ERROR(resize_out(copy_to, {shape, copy_to.dim()}));
  }
  PTERON_CHECK_OR_RETURN(index < copy_to.size(0), Error::InvalidArgument,
                         "slice %lld of %s is out of range", static_cast<long long>(index),
                         copy_to.describe().c_str());
  return copy_elements(view_of(copy_from), view_of(copy_to).selected(0, index));
}

}  // namespace pteron::kernels
