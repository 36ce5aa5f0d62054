#include <algorithm>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/promotion.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {

struct Layout {
  explicit Layout(const SlimTensor& tensor)
      : dim(tensor.dim()), offset(tensor.storage_offset()), dtype(tensor.dtype()) {
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), sizes);
    std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  }

  size_t dim;
  int64_t offset;
  DType dtype;
  int64_t sizes[slim::kMaxDims];
  int64_t strides[slim::kMaxDims];
};

Error view(const SlimTensor& self, const Layout& layout, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(
      out, make_view(self, {layout.sizes, layout.dim}, {layout.strides, layout.dim}, layout.offset,
                     layout.dtype));
  return Error::Ok;
}

// Converts strides and offset to elements that are `factor` times smaller or larger.
Error rescale(const SlimTensor& self, int64_t factor, bool smaller, Layout* layout) {
  for (size_t d = 0; d + 1 < layout->dim; ++d) {
    int64_t& stride = layout->strides[d];
    PTERON_CHECK_OR_RETURN(
        smaller || stride % factor == 0 || layout->sizes[d] <= 1, Error::InvalidArgument,
        "found self %s with stride %lld, expected a multiple of %lld", self.describe().c_str(),
        static_cast<long long>(stride), static_cast<long long>(factor));
    stride = smaller ? stride * factor : stride / factor;
  }
  PTERON_CHECK_OR_RETURN(smaller || layout->offset % factor == 0, Error::InvalidArgument,
                         "found self %s at offset %lld, expected a multiple of %lld",
                         self.describe().c_str(), static_cast<long long>(layout->offset),
                         static_cast<long long>(factor));
  layout->offset = smaller ? layout->offset * factor : layout->offset / factor;
  return Error::Ok;
}

// Strides that view `self` in the sizes of `layout` (same number of elements) in row-major order;
// false if a view is impossible.
bool fit_strides(const SlimTensor& self, Layout* layout) {
  if (self.numel() == 0) {
    slim::contiguous_strides({layout->sizes, layout->dim}, layout->strides);
    return true;
  }
  size_t left = layout->dim;
  int64_t elements = 1, stride = 1;  // of a block of mergeable dimensions
  for (size_t d = self.dim(); d-- > 0;) {
    if (elements == 1) stride = self.stride(d);
    elements *= self.size(d);
    const bool ends = d == 0 || (self.size(d - 1) != 1 && self.stride(d - 1) != elements * stride);
    if (!ends) continue;
    int64_t taken = 1;
    while (left > 0 && (taken < elements || layout->sizes[left - 1] == 1)) {
      --left;
      layout->strides[left] = taken * stride;
      taken *= layout->sizes[left];
    }
    if (taken != elements) return false;
    elements = 1;
  }
  for (; left > 0; --left) layout->strides[left - 1] = 1;
  return true;
}

}  // namespace

Error permute(const Kernels&, const SlimTensor& self, Span<const int64_t> dims, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(dims.size() == self.dim(), Error::InvalidArgument,
                         "found %zu dims, expected one for each dimension of %s", dims.size(),
                         self.describe().c_str());
  Layout layout(self);
  bool seen[slim::kMaxDims] = {};
  for (size_t i = 0; i < dims.size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dims[i], self.dim()));
    PTERON_CHECK_OR_RETURN(!seen[d], Error::InvalidArgument,
                           "found dimension %zu twice, expected each once", d);
    seen[d] = true;
    layout.sizes[i] = self.size(d);
    layout.strides[i] = self.stride(d);
  }
  return view(self, layout, out);
}

// A view if possible, else a copy.
Error reshape(const Kernels&, const SlimTensor& self, Span<const int64_t> shape, TensorPtr& out) {
  Layout layout(self);
  int64_t known = 1, inferred = 0;
  bool right = shape.size() <= slim::kMaxDims;
  for (const int64_t size : shape) {
    inferred += size == -1;
    right = right && size >= -1 && !__builtin_mul_overflow(known, size == -1 ? 1 : size, &known);
  }
  right = right && (inferred == 0 ? known == self.numel()
                                  : inferred == 1 && known > 0 && self.numel() % known == 0);
  PTERON_CHECK_OR_RETURN(right, Error::InvalidArgument,
                         "found self %s and a shape of %lld elements with %lld sizes of -1, "
                         "expected as many elements, or one size of -1 that can stand for the rest",
                         self.describe().c_str(), static_cast<long long>(known),
                         static_cast<long long>(inferred));
  layout.dim = shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    layout.sizes[d] = shape[d] == -1 ? self.numel() / known : shape[d];
  }
  if (fit_strides(self, &layout)) return view(self, layout, out);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, slim::contiguous_tensor(self));
  layout.offset = 0;
  slim::contiguous_strides({layout.sizes, layout.dim}, layout.strides);
  return view(*copy, layout, out);
}

Error slice_Tensor(const Kernels&, const SlimTensor& self, int64_t dim,
                   std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                   TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  PTERON_CHECK_OR_RETURN(self.dim() > 0 && step > 0, Error::InvalidArgument,
                         "found self %s and step %lld, expected dimensions and a step above 0",
                         self.describe().c_str(), static_cast<long long>(step));
  const int64_t size = self.size(d);
  // Negative and out-of-range slice bounds.
  const auto within = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t first = within(start.value_or(0));
  const int64_t last = std::max(first, within(end.value_or(size)));
  Layout layout(self);
  layout.offset += first * layout.strides[d];
  layout.sizes[d] = last == first ? 0 : (last - first - 1) / step + 1;
  layout.strides[d] *= std::min(step, std::max<int64_t>(size, 1));  // of one element it is any
  return view(self, layout, out);
}

// view_as_complex: real [..., 2] with contiguous pairs as complex [...].
Error view_as_complex(const Kernels&, const SlimTensor& self, TensorPtr& out) {
  Layout layout(self);
  layout.dtype = complex_of(self.dtype());
  const size_t last = self.dim() - 1;
  PTERON_CHECK_OR_RETURN(self.dim() > 0 && layout.dtype != self.dtype() && self.size(last) == 2 &&
                             self.stride(last) == 1,
                         Error::InvalidArgument,
                         "found self %s, expected pairs of floating-point numbers",
                         self.describe().c_str());
  PTERON_RETURN_IF_ERROR(rescale(self, 2, false, &layout));
  --layout.dim;
  return view(self, layout, out);
}

// view_as_real.
Error view_as_real(const Kernels&, const SlimTensor& self, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(slim::is_complex(self.dtype()) && self.dim() < slim::kMaxDims,
                         Error::InvalidArgument, "found self %s, expected complex numbers",
                         self.describe().c_str());
  Layout layout(self);
  layout.dtype = real_of(self.dtype());
  layout.sizes[layout.dim] = 2;
  layout.strides[layout.dim++] = 1;
  PTERON_RETURN_IF_ERROR(rescale(self, 2, true, &layout));
  return view(self, layout, out);
}

// The size of the last dimension scales with the element size.
Error view_dtype(const Kernels&, const SlimTensor& self, DType dtype, TensorPtr& out) {
  const auto from = static_cast<int64_t>(self.item_size());
  const auto to = static_cast<int64_t>(slim::element_size(dtype));
  Layout layout(self);
  layout.dtype = dtype;
  if (from != to) {
    const bool smaller = from > to;
    const int64_t factor = smaller ? from / to : to / from;
    const size_t last = self.dim() - 1;
    PTERON_CHECK_OR_RETURN(
        self.dim() > 0 && self.stride(last) == 1 && (smaller || self.size(last) % factor == 0),
        Error::InvalidArgument,
        "found self %s viewed as %s, expected a last dimension without gaps and "
        "of a size that divides",
        self.describe().c_str(), slim::name_of(dtype));
    layout.sizes[last] = smaller ? self.size(last) * factor : self.size(last) / factor;
    PTERON_RETURN_IF_ERROR(rescale(self, factor, smaller, &layout));
  }
  return view(self, layout, out);
}

}  // namespace pteron::aoti::ops
