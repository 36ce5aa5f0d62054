// Tensors of one value, and ranges.
#include <cmath>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/promotion.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {
namespace {

Error fill(const Scalar& value, Span<const int64_t> sizes, Tensor& out) {
  PTERON_RETURN_IF_ERROR(resize_out(out, sizes));
  const Operand number(value);
  return copy_elements(number.view().expanded(sizes), view_of(out));
}

Result<Shape> shape_of(const Ints& sizes) {
  Shape shape;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PTERON_CHECK_OR_RETURN(sizes[i] >= 0, Error::InvalidArgument, "size %lld of dimension %zu",
                           static_cast<long long>(sizes[i]), i);
    PTERON_RETURN_IF_ERROR(shape.push_back(sizes[i]));
  }
  return shape;
}

Error fill(const Scalar& value, const Ints& sizes, Tensor& out) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_of(sizes));
  return fill(value, shape.span(), out);
}

template <typename T>
void write_range(T start, T step, int64_t count, const View& out) {
  for (int64_t i = 0; i < count; ++i) {
    store_one<T>(out.dtype, out.data + i * out.strides[0], start + static_cast<T>(i) * step);
  }
}

Error arange(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  const double length = (end.to<double>() - start.to<double>()) / step.to<double>();
  PTERON_CHECK_OR_RETURN(std::isfinite(length) && length >= 0 && length < 9e15,
                         Error::InvalidArgument, "a range from %g to %g in steps of %g",
                         start.to<double>(), end.to<double>(), step.to<double>());
  const bool integers = start.dtype() != ScalarType::Double && end.dtype() != ScalarType::Double &&
                        step.dtype() != ScalarType::Double;
  auto count = static_cast<int64_t>(std::ceil(length));
  if (integers) {  // exact, where a double is not
    const int64_t distance = end.to<int64_t>() - start.to<int64_t>();
    count = distance / step.to<int64_t>() + (distance % step.to<int64_t>() != 0);
  }
  const int64_t sizes[] = {count};
  PTERON_RETURN_IF_ERROR(resize_out(out, sizes));
  if (integers && !is_floating(out.dtype())) {
    write_range(start.to<int64_t>(), step.to<int64_t>(), count, view_of(out));
  } else {
    write_range(start.to<double>(), step.to<double>(), count, view_of(out));
  }
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(full_out, (Ints sizes, Scalar value, Tensor& out)) {
  return fill(value, sizes, out);
}
PTERON_DEFINE_KERNEL(full_like_out, (const Tensor& self, Scalar value, Ignored, Tensor& out)) {
  return fill(value, self.sizes(), out);
}
PTERON_DEFINE_KERNEL(new_full_out, (Ignored, Ints sizes, Scalar value, Tensor& out)) {
  return fill(value, sizes, out);
}
PTERON_DEFINE_KERNEL(zeros_out, (Ints sizes, Tensor& out)) { return fill(int64_t{0}, sizes, out); }
PTERON_DEFINE_KERNEL(new_zeros_out, (Ignored, Ints sizes, Tensor& out)) {
  return fill(int64_t{0}, sizes, out);
}
PTERON_DEFINE_KERNEL(zeros_like_out, (const Tensor& self, Ignored, Tensor& out)) {
  return fill(int64_t{0}, self.sizes(), out);
}
PTERON_DEFINE_KERNEL(ones_out, (Ints sizes, Tensor& out)) { return fill(int64_t{1}, sizes, out); }
PTERON_DEFINE_KERNEL(ones_like_out, (const Tensor& self, Ignored, Tensor& out)) {
  return fill(int64_t{1}, self.sizes(), out);
}
// Contents are unspecified, so whatever is there will do.
PTERON_DEFINE_KERNEL(empty_out, (Ints sizes, Ignored, Tensor& out)) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_of(sizes));
  return resize_out(out, shape.span());
}
PTERON_DEFINE_KERNEL(empty_like_out, (const Tensor& self, Ignored, Tensor& out)) {
  return resize_out(out, self.sizes());
}
PTERON_DEFINE_KERNEL(fill_scalar_out, (const Tensor& self, Scalar value, Tensor& out)) {
  return fill(value, self.sizes(), out);
}
PTERON_DEFINE_KERNEL(fill_out, (const Tensor& self, const Tensor& value, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(value.dim() == 0, Error::InvalidArgument,
                         "found %s, expected a 0-d tensor", value.describe().c_str());
  PTERON_RETURN_IF_ERROR(resize_out(out, self.sizes()));
  return copy_elements(view_of(value).expanded(self.sizes()), view_of(out));
}
PTERON_DEFINE_KERNEL(scalar_tensor_out, (Scalar value, Tensor& out)) {
  return fill(value, Span<const int64_t>(), out);
}
PTERON_DEFINE_KERNEL(arange_start_out, (Scalar start, Scalar end, Scalar step, Tensor& out)) {
  return arange(start, end, step, out);
}
PTERON_DEFINE_KERNEL(arange_out, (Scalar end, Tensor& out)) {
  return arange(int64_t{0}, end, int64_t{1}, out);
}

}  // namespace pteron::kernels
