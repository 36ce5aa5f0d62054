#include "pteron/runtime/kernel/portable/shapes.h"

#include <algorithm>

namespace pteron::kernels {

Shape::Shape(Span<const int64_t> from) : dim(from.size()) {
  std::copy(from.begin(), from.end(), sizes.begin());
}

int64_t Shape::numel() const {
  int64_t numel = 1;
  for (size_t d = 0; d < dim; ++d) numel *= sizes[d];
  return numel;
}

Error Shape::push_back(int64_t size) {
  PTERON_CHECK_OR_RETURN(dim < kMaxTensorDims, Error::InvalidArgument,
                         "a shape of more than %zu dimensions", kMaxTensorDims);
  sizes[dim++] = size;
  return Error::Ok;
}

std::string describe(Span<const int64_t> sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

Result<Shape> broadcast(std::initializer_list<Span<const int64_t>> shapes) {
  Shape result;
  for (const Span<const int64_t>& shape : shapes) result.dim = std::max(result.dim, shape.size());
  std::fill_n(result.sizes.begin(), result.dim, int64_t{1});
  for (const Span<const int64_t>& shape : shapes) {
    const size_t added = result.dim - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = result.sizes[added + d];
      if (shape[d] == 1 || shape[d] == size) continue;
      if (size != 1) {
        std::string text;
        for (const Span<const int64_t>& each : shapes) {
          text += (text.empty() ? "" : " and ") + describe(each);
        }
        return make_error(Error::InvalidArgument, "sizes %s do not broadcast", text.c_str());
      }
      size = shape[d];
    }
  }
  return result;
}

Error resize_out(Tensor& out, Span<const int64_t> sizes) {
  const Span<const int64_t> found = out.sizes();
  if (found.size() == sizes.size() && std::equal(found.begin(), found.end(), sizes.begin())) {
    return Error::Ok;
  }
  Error error = out.resize(sizes);
  if (error.ok()) return error;
  return std::move(error).with_context("the result is " + describe(sizes) + ", its memory " +
                                       out.describe());
}

Error copy_into(const View& from, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, from.shape()));
  return copy_elements(from, view_of(out));
}

Result<size_t> normalized_dim(int64_t dim, size_t rank) {
  const auto count = static_cast<int64_t>(std::max(rank, size_t{1}));
  PTERON_CHECK_OR_RETURN(dim >= -count && dim < count, Error::InvalidArgument,
                         "found dimension %lld, expected one from %lld to %lld",
                         static_cast<long long>(dim), static_cast<long long>(-count),
                         static_cast<long long>(count - 1));
  return static_cast<size_t>(dim < 0 ? dim + count : dim);
}

Result<std::array<bool, kMaxTensorDims>> dim_mask(const std::optional<Ints>& dims, size_t rank) {
  std::array<bool, kMaxTensorDims> mask{};
  if (!dims || dims->size() == 0) {
    std::fill_n(mask.begin(), rank, true);
    return mask;
  }
  for (size_t i = 0; i < dims->size(); ++i) {
    PTERON_ASSIGN_OR_RETURN(const size_t d, normalized_dim((*dims)[i], rank));
    PTERON_CHECK_OR_RETURN(!mask[d], Error::InvalidArgument, "dimension %zu is named twice", d);
    mask[d] = true;
  }
  return mask;
}

bool is_contiguous(const View& view) {
  auto stride = static_cast<int64_t>(element_size(view.dtype));
  for (size_t d = view.dim; d-- > 0;) {
    if (view.sizes[d] == 0) return true;
    if (view.sizes[d] != 1 && view.strides[d] != stride) return false;
    stride *= view.sizes[d];
  }
  return true;
}

Result<View> contiguous(KernelContext& context, const Tensor& tensor) {
  const View view = view_of(tensor);
  if (is_contiguous(view)) return contiguous_view(view.dtype, view.shape(), view.data);
  PTERON_ASSIGN_OR_RETURN(void* scratch, context.scratch(tensor.nbytes()));
  const View copy = contiguous_view(view.dtype, view.shape(), scratch);
  PTERON_RETURN_IF_ERROR(copy_elements(view, copy));
  return copy;
}

}  // namespace pteron::kernels
