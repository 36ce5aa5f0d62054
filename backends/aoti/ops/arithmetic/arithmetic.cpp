#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"

#include <cmath>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/promotion.h"
#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/aoti/slim/core/scalar.h"

namespace pteron::aoti::ops {

using Kind = ArithmeticCall::Kind;

namespace {

Error binary(const Kernels& kernels, Kind kind, double alpha, const SlimTensor& a,
             const SlimTensor& b, TensorPtr& out) {
  CommonSizes sizes;
  PTERON_RETURN_IF_ERROR(sizes.add(a, "the first operand"));
  PTERON_RETURN_IF_ERROR(sizes.add(b, "the second operand"));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x, broadcast_to(a, "the first operand", sizes));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr y, broadcast_to(b, "the second operand", sizes));
  const DType dtype = result_type(a, b);
  PTERON_ASSIGN_OR_RETURN(
      out, make_ordered_like(sizes, kind == Kind::kPolar ? complex_of(dtype) : dtype, a.device(),
                             {x->strides().data(), y->strides().data()}));
  return kernels.arithmetic({kind, alpha, *x, *y, *out});
}

// A scalar as a 0-d tensor, of the same dtype category as `with` at most.
Result<TensorPtr> number_like(const Kernels& kernels, double value, const SlimTensor& with) {
  const bool is_integer = !slim::is_floating_point(with.dtype()) && !slim::is_complex(with.dtype());
  const DType dtype = is_integer && value != std::trunc(value) ? DType::Float : with.dtype();
  PTERON_ASSIGN_OR_RETURN(TensorPtr number, make_row_major({}, dtype, with.device()));
  PTERON_RETURN_IF_ERROR(kernels.fill(*number, slim::Scalar::of(value)));
  return number;
}

}  // namespace

Error abs(const Kernels& kernels, const SlimTensor& self, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(out, make_ordered_like(self, real_of(self.dtype())));
  return kernels.arithmetic({Kind::kAbsolute, 1, self, self, *out});
}

Error add_Tensor(const Kernels& kernels, const SlimTensor& self, const SlimTensor& other,
                 double alpha, TensorPtr& out) {
  return binary(kernels, Kind::kAdd, alpha, self, other, out);
}

Error fill__Scalar(const Kernels& kernels, const SlimTensor& self, double value) {
  return kernels.fill(self, slim::Scalar::of(value));
}

Error mul_Tensor(const Kernels& kernels, const SlimTensor& self, const SlimTensor& other,
                 TensorPtr& out) {
  return binary(kernels, Kind::kMultiply, 1, self, other, out);
}

Error polar(const Kernels& kernels, const SlimTensor& abs, const SlimTensor& angle,
            TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(abs.dtype() == angle.dtype() && complex_of(abs.dtype()) != abs.dtype(),
                         Error::InvalidType,
                         "found abs %s and angle %s, expected float32 or float64 of both",
                         abs.describe().c_str(), angle.describe().c_str());
  return binary(kernels, Kind::kPolar, 1, abs, angle, out);
}

Error pow_Scalar(const Kernels& kernels, double self, const SlimTensor& exponent, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr base, number_like(kernels, self, exponent));
  return binary(kernels, Kind::kPower, 1, *base, exponent, out);
}

Error pow_Tensor_Scalar(const Kernels& kernels, const SlimTensor& self, double exponent,
                        TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr number, number_like(kernels, exponent, self));
  return binary(kernels, Kind::kPower, 1, self, *number, out);
}

Error pow_Tensor_Tensor(const Kernels& kernels, const SlimTensor& self, const SlimTensor& exponent,
                        TensorPtr& out) {
  return binary(kernels, Kind::kPower, 1, self, exponent, out);
}

}  // namespace pteron::aoti::ops
