#include "pteron/runtime/kernel/portable/slices.h"

#include <algorithm>

namespace pteron::kernels {

Result<Slices> Slices::make(const Tensor& self, const std::optional<Ints>& dims, bool keepdim,
                            Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(const Mask mask, dim_mask(dims, self.dim()));
  return make(self, mask, keepdim, out);
}

Result<Slices> Slices::make(const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  Mask mask{};
  mask[d] = true;
  return make(self, mask, keepdim, out);
}

Result<Slices> Slices::make(const Tensor& self, const Mask& reduced, bool keepdim, Tensor& out) {
  const View from = view_of(self);
  Shape shape;
  for (size_t d = 0; d < from.dim; ++d) {
    if (!reduced[d] || keepdim)
      PTERON_RETURN_IF_ERROR(shape.push_back(reduced[d] ? 1 : from.sizes[d]));
  }
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const View to = view_of(out);
  Slices slices;
  slices.slice_ = from;
  slices.slice_.dim = 0;
  slices.result_ = to;
  slices.result_.dim = 0;
  for (size_t d = 0; d < from.dim; ++d) {
    if (reduced[d]) {
      slices.slice_.sizes[slices.slice_.dim] = from.sizes[d];
      slices.slice_.strides[slices.slice_.dim++] = from.strides[d];
      continue;
    }
    slices.empty_ |= from.sizes[d] == 0;
    slices.sizes_[slices.dim_] = from.sizes[d];
    slices.steps_[slices.dim_] = from.strides[d];
    slices.result_steps_[slices.dim_] = to.strides[keepdim ? d : slices.dim_];
    ++slices.dim_;
  }
  return slices;
}

Result<Slices> Slices::along(const Tensor& self, int64_t dim, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, self.sizes()));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  Slices slices;
  slices.slice_ = view_of(self);
  slices.result_ = view_of(out);
  for (View* view : {&slices.slice_, &slices.result_}) {
    if (view->dim == 0) {  // a 0-d tensor is a slice of one
      view->dim = 1;
      view->sizes[0] = 1;
    }
  }
  for (size_t i = 0; i < slices.slice_.dim; ++i) {
    if (i == d) continue;
    slices.empty_ |= slices.slice_.sizes[i] == 0;
    slices.sizes_[slices.dim_] = slices.slice_.sizes[i];
    slices.steps_[slices.dim_] = slices.slice_.strides[i];
    slices.result_steps_[slices.dim_++] = slices.result_.strides[i];
  }
  for (View* view : {&slices.slice_, &slices.result_}) {
    view->dim = 1;
    view->sizes[0] = view->sizes[d];
    view->strides[0] = view->strides[d];
  }
  return slices;
}

bool Slices::next() {
  if (!started_) {
    started_ = true;
    return !empty_;
  }
  for (size_t d = dim_; d-- > 0;) {
    if (++index_[d] < sizes_[d]) {
      slice_.data += steps_[d];
      result_.data += result_steps_[d];
      return true;
    }
    index_[d] = 0;
    slice_.data -= steps_[d] * (sizes_[d] - 1);
    result_.data -= result_steps_[d] * (sizes_[d] - 1);
  }
  return false;
}

}  // namespace pteron::kernels
