// Scalar arithmetic between tensor operators (sizes, counters, conditions), and assertions.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "pteron/runtime/core/element.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"

namespace pteron::kernels {
namespace {

bool both_int(const Scalar& a, const Scalar& b) {
  return a.dtype() != ScalarType::Double && b.dtype() != ScalarType::Double;
}

Error overflow() {
  return make_error(Error::InvalidArgument, "the result does not fit into 64 bits");
}

// A value keeps its kind, since lists may refer to it.
Error set_result(EValue& slot, EValue value) {
  if (slot.is_double() && value.is_int()) value = EValue(static_cast<double>(value.to_int()));
  PTERON_CHECK_OR_RETURN(slot.value_kind() == value.value_kind(), Error::InvalidType,
                         "the result is %s, and the slot for it %s", name_of(value.value_kind()),
                         name_of(slot.value_kind()));
  slot = std::move(value);
  return Error::Ok;
}

// Python semantics: ints are exact or an error, anything else is a double.
template <typename IntOp, typename DoubleOp>
Error compute(const Scalar& a, const Scalar& b, EValue& result, IntOp int_op, DoubleOp double_op) {
  if (!both_int(a, b)) {
    return set_result(result,
                      EValue(static_cast<double>(double_op(a.to<double>(), b.to<double>()))));
  }
  int64_t value = 0;
  if (int_op(a.to<int64_t>(), b.to<int64_t>(), &value)) return overflow();
  return set_result(result, EValue(value));
}

template <typename Op>
Error compare(const Scalar& a, const Scalar& b, EValue& result, Op op) {
  return set_result(result,
                    EValue(static_cast<bool>(both_int(a, b) ? op(a.to<int64_t>(), b.to<int64_t>())
                                                            : op(a.to<double>(), b.to<double>()))));
}

Error check_divisor(const Scalar& b) {
  PTERON_CHECK_OR_RETURN(b.to<double>() != 0, Error::InvalidArgument, "division by zero");
  return Error::Ok;
}

// Floor division; true on overflow.
bool floor_divide(int64_t a, int64_t b, int64_t* result) {
  if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, result);
  *result = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return false;
}

bool floor_modulo(int64_t a, int64_t b, int64_t* result) {
  *result = b == -1 ? 0 : a % b;
  if (*result != 0 && (*result < 0) != (b < 0)) *result += b;
  return false;
}

double floor_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

// item() of a one-element tensor.
Result<EValue> number_in(const Tensor& tensor) {
  PTERON_CHECK_OR_RETURN(tensor.numel() == 1 && !is_complex(tensor.dtype()), Error::InvalidArgument,
                         "found %s, expected one real element", tensor.describe().c_str());
  const auto* data = tensor.data_as<std::byte>();
  if (is_floating(tensor.dtype())) return EValue(load_one<double>(tensor.dtype(), data));
  const auto number = load_one<int64_t>(tensor.dtype(), data);
  return tensor.dtype() == ScalarType::Bool ? EValue(number != 0) : EValue(number);
}

// Ok if the condition is true. The other arguments are the message: strings and scalars.
Error check(EValue& condition, Span<EValue* const> arguments) {
  if (Argument<Scalar>::get(condition).to<double>() != 0) return Error::Ok;
  std::string text;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const EValue& part = *arguments[i];
    PTERON_CHECK_OR_RETURN(part.is_string() || part.is_int() || part.is_double() || part.is_bool(),
                           Error::InvalidType, "argument %zu is %s, expected text or a number", i,
                           name_of(part.value_kind()));
    text += part.is_string()   ? std::string(part.to_string())
            : part.is_int()    ? std::to_string(part.to_int())
            : part.is_double() ? std::to_string(part.to_double())
                               : (part.to_bool() ? "true" : "false");
  }
  return make_error(Error::InvalidArgument, "check in the model: %s", text.c_str());
}

template <typename Rounding>
Error round_to_int(const Scalar& a, EValue& result, Rounding rounding) {
  if (a.dtype() != ScalarType::Double) {
    return set_result(result, EValue(a.to<int64_t>()));
  }
  const double rounded = rounding(a.to<double>());
  if (!(rounded >= -9223372036854775808.0 && rounded < 9223372036854775808.0)) return overflow();
  return set_result(result, EValue(static_cast<int64_t>(rounded)));
}

}  // namespace

PTERON_DEFINE_KERNEL(scalar_add, (Scalar a, Scalar b, EValue& result)) {
  return compute(
      a, b, result,
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); },
      [](double x, double y) { return x + y; });
}
PTERON_DEFINE_KERNEL(scalar_sub, (Scalar a, Scalar b, EValue& result)) {
  return compute(
      a, b, result,
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); },
      [](double x, double y) { return x - y; });
}
PTERON_DEFINE_KERNEL(scalar_mul, (Scalar a, Scalar b, EValue& result)) {
  return compute(
      a, b, result,
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); },
      [](double x, double y) { return x * y; });
}
PTERON_DEFINE_KERNEL(scalar_floordiv, (Scalar a, Scalar b, EValue& result)) {
  PTERON_RETURN_IF_ERROR(check_divisor(b));
  return compute(a, b, result, floor_divide, [](double x, double y) { return std::floor(x / y); });
}
PTERON_DEFINE_KERNEL(scalar_mod, (Scalar a, Scalar b, EValue& result)) {
  PTERON_RETURN_IF_ERROR(check_divisor(b));
  return compute(
      a, b, result, [](int64_t x, int64_t y, int64_t* r) { return floor_modulo(x, y, r); },
      [](double x, double y) { return floor_modulo(x, y); });
}
PTERON_DEFINE_KERNEL(scalar_truediv, (Scalar a, Scalar b, EValue& result)) {
  PTERON_RETURN_IF_ERROR(check_divisor(b));
  return set_result(result, EValue(a.to<double>() / b.to<double>()));
}
PTERON_DEFINE_KERNEL(scalar_max, (Scalar a, Scalar b, EValue& result)) {
  return compute(
      a, b, result, [](int64_t x, int64_t y, int64_t* r) { return *r = std::max(x, y), false; },
      [](double x, double y) { return std::max(x, y); });
}
PTERON_DEFINE_KERNEL(scalar_min, (Scalar a, Scalar b, EValue& result)) {
  return compute(
      a, b, result, [](int64_t x, int64_t y, int64_t* r) { return *r = std::min(x, y), false; },
      [](double x, double y) { return std::min(x, y); });
}
PTERON_DEFINE_KERNEL(scalar_neg, (Scalar a, EValue& result)) {
  return compute(
      int64_t{0}, a, result,
      [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); },
      [](double, double y) { return -y; });
}
PTERON_DEFINE_KERNEL(scalar_float, (Scalar a, EValue& result)) {
  return set_result(result, EValue(a.to<double>()));
}
PTERON_DEFINE_KERNEL(scalar_not, (bool a, EValue& result)) {
  return set_result(result, EValue(!a));
}
PTERON_DEFINE_KERNEL(scalar_ceil, (Scalar a, EValue& result)) {
  return round_to_int(a, result, [](double x) { return std::ceil(x); });
}
PTERON_DEFINE_KERNEL(scalar_floor, (Scalar a, EValue& result)) {
  return round_to_int(a, result, [](double x) { return std::floor(x); });
}
PTERON_DEFINE_KERNEL(scalar_round, (Scalar a, EValue& result)) {
  return round_to_int(a, result, [](double x) { return std::nearbyint(x); });
}
PTERON_DEFINE_KERNEL(scalar_trunc, (Scalar a, EValue& result)) {
  return round_to_int(a, result, [](double x) { return std::trunc(x); });
}

#define PTERON_SCALAR_COMPARISON(name, op)                               \
  PTERON_DEFINE_KERNEL(name, (Scalar a, Scalar b, EValue & result)) {    \
    return compare(a, b, result, [](auto x, auto y) { return x op y; }); \
  }
PTERON_SCALAR_COMPARISON(scalar_eq, ==)
PTERON_SCALAR_COMPARISON(scalar_ne, !=)
PTERON_SCALAR_COMPARISON(scalar_lt, <)
PTERON_SCALAR_COMPARISON(scalar_le, <=)
PTERON_SCALAR_COMPARISON(scalar_gt, >)
PTERON_SCALAR_COMPARISON(scalar_ge, >=)

PTERON_DEFINE_KERNEL(sym_size, (const Tensor& self, int64_t dim, EValue& result)) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, checked_dim(self, dim));
  return set_result(result, EValue(self.size(d)));
}
PTERON_DEFINE_KERNEL(sym_numel, (const Tensor& self, EValue& result)) {
  return set_result(result, EValue(self.numel()));
}

PTERON_DEFINE_KERNEL(local_scalar_dense, (const Tensor& self, EValue& result)) {
  PTERON_ASSIGN_OR_RETURN(EValue number, number_in(self));
  return set_result(result, std::move(number));
}

Error assert_scalar(KernelContext&, Span<EValue* const> arguments) {
  PTERON_RETURN_IF_ERROR(check_arguments(arguments, &Argument<Scalar>::kKinds, 1));
  return check(*arguments[0], arguments);
}
Error assert_async(KernelContext&, Span<EValue* const> arguments) {
  PTERON_RETURN_IF_ERROR(check_arguments(arguments, &Argument<const Tensor&>::kKinds, 1));
  PTERON_ASSIGN_OR_RETURN(EValue condition, number_in(arguments[0]->tensor()));
  return check(condition, arguments);
}

}  // namespace pteron::kernels
