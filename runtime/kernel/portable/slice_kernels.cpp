// Parts of a tensor, and tensors put together from parts.
#include <algorithm>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/promotion.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

Error check_rank(const Tensor& self) {
  PTERON_CHECK_OR_RETURN(self.dim() > 0, Error::InvalidArgument,
                         "found a 0-d tensor, expected dimensions");
  return Error::Ok;
}

// Where a Python slice of `size` elements starts, and how many it has.
struct Range {
  size_t dim;
  int64_t start;
  int64_t count;
  int64_t step;
};

Result<Range> resolved_slice(const Tensor& self, int64_t dim, const std::optional<int64_t>& start,
                             const std::optional<int64_t>& end, int64_t step) {
  PTERON_RETURN_IF_ERROR(check_rank(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  PTERON_CHECK_OR_RETURN(step > 0, Error::InvalidArgument, "slice step %lld, expected at least 1",
                         static_cast<long long>(step));
  const int64_t size = self.size(d);
  const auto clamped = [size](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t from = clamped(start.value_or(0));
  const int64_t to = std::max(clamped(end.value_or(size)), from);
  return Range{d, from, (to - from) / step + ((to - from) % step != 0), step};
}

Result<int64_t> resolved_index(const Tensor& self, size_t dim, int64_t index) {
  const int64_t size = self.size(dim);
  PTERON_CHECK_OR_RETURN(index >= -size && index < size, Error::InvalidArgument,
                         "index %lld is out of range in dimension %zu of %s",
                         static_cast<long long>(index), dim, self.describe().c_str());
  return index < 0 ? index + size : index;
}

// out = self, and `source` over `part` of it.
Error scatter(const Tensor& self, const Tensor& source, View (*part)(const View&, const Range&),
              const Range& range, Tensor& out) {
  PTERON_RETURN_IF_ERROR(copy_into(view_of(self), out));
  const View target = part(view_of(out), range);
  PTERON_ASSIGN_OR_RETURN(const Shape shape, broadcast({source.sizes(), target.shape()}));
  PTERON_CHECK_OR_RETURN(shape.dim == target.dim && shape.numel() == target.numel(),
                         Error::InvalidArgument, "%s does not fit %s", source.describe().c_str(),
                         describe(target.shape()).c_str());
  return copy_elements(view_of(source).expanded(target.shape()), target);
}

View sliced(const View& view, const Range& range) {
  return view.sliced(range.dim, range.start, range.count, range.step);
}

View selected(const View& view, const Range& range) {
  return view.selected(range.dim, range.start);
}

// Writes the parts of `self` along `dim` into `outs`, `sizes(i)` long each.
template <typename Sizes>
Error split(const Tensor& self, int64_t dim, const Outs& outs, bool keep_dim, Sizes sizes) {
  PTERON_RETURN_IF_ERROR(check_rank(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  int64_t start = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    const int64_t size = sizes(i, self.size(d) - start);
    PTERON_CHECK_OR_RETURN(size >= 0 && size <= self.size(d) - start, Error::InvalidArgument,
                           "part %zu of %s does not fit", i, self.describe().c_str());
    const View part =
        keep_dim ? view_of(self).sliced(d, start, size) : view_of(self).selected(d, start);
    PTERON_RETURN_IF_ERROR(copy_into(part, outs[i]));
    start += size;
  }
  PTERON_CHECK_OR_RETURN(start == self.size(d), Error::InvalidArgument,
                         "%zu parts hold %lld of %lld elements of dimension %zu", outs.size(),
                         static_cast<long long>(start), static_cast<long long>(self.size(d)), d);
  return Error::Ok;
}

// A 1-d tensor without elements joins anything, for old models' sake.
bool is_skipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; }

}  // namespace

PTERON_DEFINE_KERNEL(slice_copy_out, (const Tensor& self, int64_t dim, std::optional<int64_t> start,
                                      std::optional<int64_t> end, int64_t step, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Range range, resolved_slice(self, dim, start, end, step));
  return copy_into(sliced(view_of(self), range), out);
}
PTERON_DEFINE_KERNEL(narrow_copy_out, (const Tensor& self, int64_t dim, int64_t start,
                                       int64_t length, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Range range, resolved_slice(self, dim, start, std::nullopt, 1));
  PTERON_CHECK_OR_RETURN(length >= 0 && length <= range.count, Error::InvalidArgument,
                         "%lld elements from %lld are out of range of %s",
                         static_cast<long long>(length), static_cast<long long>(start),
                         self.describe().c_str());
  return copy_into(view_of(self).sliced(range.dim, range.start, length), out);
}
PTERON_DEFINE_KERNEL(slice_scatter_out, (const Tensor& self, const Tensor& source, int64_t dim,
                                         std::optional<int64_t> start, std::optional<int64_t> end,
                                         int64_t step, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Range range, resolved_slice(self, dim, start, end, step));
  return scatter(self, source, sliced, range, out);
}

PTERON_DEFINE_KERNEL(select_copy_out,
                     (const Tensor& self, int64_t dim, int64_t index, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(check_rank(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  PTERON_ASSIGN_OR_RETURN(const int64_t i, resolved_index(self, d, index));
  return copy_into(view_of(self).selected(d, i), out);
}
PTERON_DEFINE_KERNEL(select_scatter_out, (const Tensor& self, const Tensor& source, int64_t dim,
                                          int64_t index, Tensor& out)) {
  PTERON_RETURN_IF_ERROR(check_rank(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, self.dim()));
  PTERON_ASSIGN_OR_RETURN(const int64_t i, resolved_index(self, d, index));
  return scatter(self, source, selected, Range{d, i, 1, 1}, out);
}

PTERON_DEFINE_KERNEL(split_with_sizes_copy_out,
                     (const Tensor& self, Ints sizes, int64_t dim, Outs outs)) {
  PTERON_CHECK_OR_RETURN(sizes.size() == outs.size(), Error::InvalidArgument,
                         "found %zu outputs for %zu parts", outs.size(), sizes.size());
  return split(self, dim, outs, true, [&](size_t i, int64_t) { return sizes[i]; });
}
PTERON_DEFINE_KERNEL(split_copy_out, (const Tensor& self, int64_t size, int64_t dim, Outs outs)) {
  return split(self, dim, outs, true, [&](size_t, int64_t left) { return std::min(size, left); });
}
PTERON_DEFINE_KERNEL(unbind_copy_out, (const Tensor& self, int64_t dim, Outs outs)) {
  return split(self, dim, outs, false, [](size_t, int64_t) { return int64_t{1}; });
}

PTERON_DEFINE_KERNEL(cat_out, (Tensors tensors, int64_t dim, Tensor& out)) {
  const Tensor* first = nullptr;
  for (size_t i = 0; i < tensors.size() && !first; ++i) {
    if (!is_skipped(tensors[i])) first = &tensors[i];
  }
  PTERON_CHECK_OR_RETURN(tensors.size() > 0, Error::InvalidArgument, "nothing to join");
  if (!first) return resize_out(out, tensors[0].sizes());
  PTERON_RETURN_IF_ERROR(check_rank(*first));
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, first->dim()));
  Shape shape(first->sizes());
  shape.sizes[d] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (is_skipped(tensor)) continue;
    bool fits = tensor.dim() == shape.dim;
    for (size_t k = 0; k < shape.dim && fits; ++k) {
      fits = k == d || tensor.size(k) == shape.sizes[k];
    }
    PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                           "cannot join %s and %s along dimension %zu", first->describe().c_str(),
                           tensor.describe().c_str(), d);
    shape.sizes[d] += tensor.size(d);
  }
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  int64_t start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (is_skipped(tensor)) continue;
    PTERON_RETURN_IF_ERROR(
        copy_elements(view_of(tensor), view_of(out).sliced(d, start, tensor.size(d))));
    start += tensor.size(d);
  }
  return Error::Ok;
}

PTERON_DEFINE_KERNEL(stack_out, (Tensors tensors, int64_t dim, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(tensors.size() > 0, Error::InvalidArgument, "nothing to stack");
  const Tensor& first = tensors[0];
  PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim(dim, first.dim() + 1));
  Shape shape;
  for (size_t k = 0; k <= first.dim(); ++k) {
    PTERON_RETURN_IF_ERROR(
        shape.push_back(k == d ? static_cast<int64_t>(tensors.size()) : first.size(k - (k > d))));
  }
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PTERON_RETURN_IF_ERROR(
        copy_elements(view_of(tensors[i]), view_of(out).selected(d, static_cast<int64_t>(i))));
  }
  return Error::Ok;
}

PTERON_DEFINE_KERNEL(repeat_out, (const Tensor& self, Ints repeats, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(repeats.size() >= self.dim() && repeats.size() <= kMaxTensorDims,
                         Error::InvalidArgument, "found %zu repeats for %s", repeats.size(),
                         self.describe().c_str());
  Shape own;
  for (size_t i = 0; i < repeats.size() - self.dim(); ++i) PTERON_RETURN_IF_ERROR(own.push_back(1));
  for (const int64_t size : self.sizes()) PTERON_RETURN_IF_ERROR(own.push_back(size));
  Shape shape;
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t size = 0;
    PTERON_CHECK_OR_RETURN(
        repeats[i] >= 0 && !__builtin_mul_overflow(own.sizes[i], repeats[i], &size),
        Error::InvalidArgument, "%lld repeats", static_cast<long long>(repeats[i]));
    PTERON_RETURN_IF_ERROR(shape.push_back(size));
  }
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  if (out.numel() == 0) return Error::Ok;
  // The first tile, then one dimension after the other from what is there.
  const View whole = view_of(out);
  View tile = whole;
  for (size_t d = 0; d < own.dim; ++d) tile = tile.sliced(d, 0, own.sizes[d]);
  PTERON_RETURN_IF_ERROR(copy_elements(view_of(self).expanded(own.span()), tile));
  for (size_t d = 0; d < own.dim; ++d) {
    for (int64_t i = 1; i < repeats[d]; ++i) {
      View target = tile;
      target.data += i * own.sizes[d] * whole.strides[d];
      PTERON_RETURN_IF_ERROR(copy_elements(tile, target));
    }
    tile.sizes[d] = shape.sizes[d];
  }
  return Error::Ok;
}

PTERON_DEFINE_KERNEL(flip_out, (const Tensor& self, Ints dims, Tensor& out)) {
  View view = view_of(self);
  if (dims.size() > 0) {
    PTERON_ASSIGN_OR_RETURN(const auto mask, dim_mask(dims, self.dim()));
    for (size_t d = 0; d < self.dim(); ++d) {
      if (!mask[d] || view.sizes[d] == 0) continue;
      view.data += (view.sizes[d] - 1) * view.strides[d];
      view.strides[d] = -view.strides[d];
    }
  }
  return copy_into(view, out);
}

// `pad` counts from the last dimension: (before, after) of each; negative numbers cut off.
PTERON_DEFINE_KERNEL(constant_pad_nd_out,
                     (const Tensor& self, Ints pad, Scalar value, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(pad.size() % 2 == 0 && pad.size() / 2 <= self.dim(),
                         Error::InvalidArgument, "found %zu paddings for %s", pad.size(),
                         self.describe().c_str());
  Shape shape(self.sizes());
  View from = view_of(self);
  std::array<int64_t, kMaxTensorDims> starts{};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = self.dim() - 1 - i;
    const int64_t before = pad[2 * i];
    const int64_t after = pad[2 * i + 1];
    shape.sizes[d] += before + after;
    const int64_t kept = self.size(d) + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    PTERON_CHECK_OR_RETURN(shape.sizes[d] >= 0 && kept >= 0, Error::InvalidArgument,
                           "padding of %lld and %lld leaves nothing of %s",
                           static_cast<long long>(before), static_cast<long long>(after),
                           self.describe().c_str());
    from = from.sliced(d, std::max<int64_t>(-before, 0), kept);
    starts[d] = std::max<int64_t>(before, 0);
  }
  PTERON_RETURN_IF_ERROR(resize_out(out, shape.span()));
  const Operand fill(value);
  PTERON_RETURN_IF_ERROR(copy_elements(fill.view().expanded(shape.span()), view_of(out)));
  View target = view_of(out);
  for (size_t d = 0; d < self.dim(); ++d) target = target.sliced(d, starts[d], from.sizes[d]);
  return copy_elements(from, target);
}

}  // namespace pteron::kernels
