// Copies: to another dtype, layout or shape of the same elements.
#include <algorithm>
#include <cstring>

#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

// `sizes` with a -1 resolved; InvalidArgument unless there are `numel` elements.
Result<Shape> resolved_shape(const Ints& sizes, int64_t numel) {
  Shape shape;
  int64_t known = 1;
  std::optional<size_t> unknown;
  bool valid = true;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PTERON_RETURN_IF_ERROR(shape.push_back(sizes[i]));
    if (sizes[i] == -1) {
      valid &= !unknown;
      unknown = i;
    } else {
      valid &= sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known);
    }
  }
  if (valid && unknown) {
    valid = known > 0 && numel % known == 0;
    shape.sizes[*unknown] = valid ? numel / known : 0;
    known = numel;
  }
  PTERON_CHECK_OR_RETURN(valid && known == numel, Error::InvalidArgument,
                         "cannot view %lld elements as %s", static_cast<long long>(numel),
                         describe(shape.span()).c_str());
  return shape;
}

// The elements of `self`, in order, in another shape.
Error reshape(KernelContext& context, const Tensor& self, const Shape& shape, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  PTERON_ASSIGN_OR_RETURN(const View from, contiguous(context, self));
  return copy_elements(contiguous_view(from.dtype, shape.span(), from.data), view_of(out));
}

Error check_count(size_t found, size_t expected) {
  PTERON_CHECK_OR_RETURN(found == expected, Error::InvalidArgument,
                         "found %zu dimensions, expected %zu", found, expected);
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(copy_out, (const Tensor& self, const Tensor& source, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({self.sizes(), source.sizes()}));
  PTERON_CHECK_OR_RETURN(shape.dim == self.dim() && shape.numel() == self.numel(),
                         Error::InvalidArgument, "%s cannot be copied to %s",
                         source.describe().c_str(), self.describe().c_str());
  return copy_into(view_of(source).expanded(shape.span()), out);
}

// The in-place form: writes `self` and returns it.
PTERON_DEFINE_KERNEL(copy_, (Tensor & self, const Tensor& source, Ignored)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({self.sizes(), source.sizes()}));
  PTERON_CHECK_OR_RETURN(shape.dim == self.dim() && shape.numel() == self.numel(),
                         Error::InvalidArgument, "%s cannot be copied to %s",
                         source.describe().c_str(), self.describe().c_str());
  return copy_elements(view_of(source).expanded(shape.span()), view_of(self));
}

// Dtype and layout are those of `out`.
PTERON_DEFINE_KERNEL(to_copy_out, (const Tensor& self, Ignored, Ignored, Tensor& out)) {
  return copy_into(view_of(self), out);
}
PTERON_DEFINE_KERNEL(clone_out, (const Tensor& self, Ignored, Tensor& out)) {
  return copy_into(view_of(self), out);
}
PTERON_DEFINE_KERNEL(alias_copy_out, (const Tensor& self, Tensor& out)) {
  return copy_into(view_of(self), out);
}

PTERON_DEFINE_KERNEL(view_copy_out,
                     (KernelContext & context, const Tensor& self, Ints sizes, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, resolved_shape(sizes, self.numel()));
  return reshape(context, self, shape, out);
}
PTERON_DEFINE_KERNEL(reshape_alias_copy_out, (KernelContext & context, const Tensor& self,
                                              Ints sizes, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, resolved_shape(sizes, self.numel()));
  return reshape(context, self, shape, out);
}

PTERON_DEFINE_KERNEL(permute_copy_out, (const Tensor& self, Ints dims, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(check_count(dims.size(), self.dim()));
  PTERON_ASSIGN_OR_RETURN(const auto mask, dim_mask(dims, self.dim()));
  (void)mask;  // says that none is named twice
  Shape order;
  for (size_t i = 0; i < dims.size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dims[i], self.dim()));
    PTERON_RETURN_IF_ERROR(order.push_back(static_cast<int64_t>(d)));
  }
  return copy_into(view_of(self).permuted(order.span()), out);
}

PTERON_DEFINE_KERNEL(transpose_copy_out,
                     (const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const size_t a, normalized_dim(dim0, self.dim()));
  PTERON_ASSIGN_OR_RETURN(const size_t b, normalized_dim(dim1, self.dim()));
  View view = view_of(self);
  std::swap(view.sizes[a], view.sizes[b]);
  std::swap(view.strides[a], view.strides[b]);
  return copy_into(view, out);
}

PTERON_DEFINE_KERNEL(t_copy_out, (const Tensor& self, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(self.dim() <= 2, Error::InvalidArgument, "found %s, expected a matrix",
                         self.describe().c_str());
  View view = view_of(self);
  if (self.dim() == 2) {
    std::swap(view.sizes[0], view.sizes[1]);
    std::swap(view.strides[0], view.strides[1]);
  }
  return copy_into(view, out);
}

PTERON_DEFINE_KERNEL(expand_copy_out, (const Tensor& self, Ints sizes, Ignored, Tensor& out)) {
  Shape shape;
  bool valid = sizes.size() >= self.dim();
  for (size_t i = 0; i < sizes.size() && valid; ++i) {
    const size_t added = sizes.size() - self.dim();
    int64_t size = sizes[i];
    if (i < added) {
      valid = size >= 0;
    } else {
      const int64_t own = self.size(i - added);
      if (size == -1) size = own;
      valid = own == size || (own == 1 && size >= 0);
    }
    PTERON_RETURN_IF_ERROR(shape.push_back(size));
  }
  PTERON_CHECK_OR_RETURN(valid, Error::InvalidArgument, "%s does not expand to the given %zu sizes",
                         self.describe().c_str(), sizes.size());
  return copy_into(view_of(self).expanded(shape.span()), out);
}

PTERON_DEFINE_KERNEL(unsqueeze_copy_out, (const Tensor& self, int64_t dim, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim() + 1));
  PTERON_CHECK_OR_RETURN(self.dim() < kMaxTensorDims, Error::InvalidArgument,
                         "more than %zu dimensions", kMaxTensorDims);
  return copy_into(view_of(self).unsqueezed(d), out);
}

namespace {

Error squeeze(const Tensor& self, const std::array<bool, kMaxTensorDims>& mask, Tensor& out) {
  View view = view_of(self);
  for (size_t d = self.dim(); d-- > 0;) {
    if (mask[d] && self.size(d) == 1) view = view.selected(d, 0);
  }
  return copy_into(view, out);
}

}  // namespace

PTERON_DEFINE_KERNEL(squeeze_copy_out, (const Tensor& self, Tensor& out)) {
  std::array<bool, kMaxTensorDims> mask;
  mask.fill(true);
  return squeeze(self, mask, out);
}
PTERON_DEFINE_KERNEL(squeeze_copy_dim_out, (const Tensor& self, int64_t dim, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  std::array<bool, kMaxTensorDims> mask{};
  mask[d] = true;
  return squeeze(self, mask, out);
}
PTERON_DEFINE_KERNEL(squeeze_copy_dims_out, (const Tensor& self, Ints dims, Tensor& out)) {
  if (dims.size() == 0) return copy_into(view_of(self), out);
  PTERON_ASSIGN_OR_RETURN(const auto mask, dim_mask(dims, self.dim()));
  return squeeze(self, mask, out);
}

// In the dim order that `out` has.
PTERON_DEFINE_KERNEL(to_dim_order_copy_out, (const Tensor& self, Ignored, Ignored, Tensor& out)) {
  return copy_into(view_of(self), out);
}

// A view without a copy: `out` gets the pointer of `self`.
PTERON_DEFINE_KERNEL(et_view, (const Tensor& self, Ints sizes, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, resolved_shape(sizes, self.numel()));
  PTERON_CHECK_OR_RETURN(is_contiguous(view_of(self)) && self.dtype() == out.dtype(),
                         Error::InvalidArgument, "%s cannot be viewed as %s without a copy",
                         self.describe().c_str(), out.describe().c_str());
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  out.share_data(self);
  return Error::Ok;
}

// copy_to[index] = copy_from. A bounded `copy_to` grows to index + 1 slices.
PTERON_DEFINE_KERNEL(et_copy_index, (Tensor & copy_to, const Tensor& copy_from, int64_t index)) {
  Shape shape;
  PTERON_RETURN_IF_ERROR(shape.push_back(index + 1));
  for (const int64_t size : copy_from.sizes()) PTERON_RETURN_IF_ERROR(shape.push_back(size));
  const bool fits = copy_to.dim() == shape.dim && index >= 0 && index < INT64_MAX;
  PTERON_CHECK_OR_RETURN(fits && copy_to.dtype() == copy_from.dtype(), Error::InvalidArgument,
                         "%s cannot be slice %lld of %s", copy_from.describe().c_str(),
                         static_cast<long long>(index), copy_to.describe().c_str());
  if (copy_to.dynamism() != ShapeDynamism::Static) {
    PTERON_RETURN_IF_ERROR(resize_out(copy_to, shape.span()));
  }
  PTERON_CHECK_OR_RETURN(index < copy_to.size(0), Error::InvalidArgument,
                         "slice %lld of %s is out of range", static_cast<long long>(index),
                         copy_to.describe().c_str());
  return copy_elements(view_of(copy_from), view_of(copy_to).selected(0, index));
}

}  // namespace pteron::kernels
