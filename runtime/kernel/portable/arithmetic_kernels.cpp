// Elementwise operators of two operands, with broadcasting and type promotion.
#include <cmath>
#include <limits>
#include <type_traits>

#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/elementwise.h"
#include "pteron/runtime/kernel/portable/kernels.h"

namespace pteron::kernels {
namespace {

// Integers wrap around; unsigned arithmetic says so without undefined behaviour.
template <typename T, typename F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return f(a, b);
  }
}

template <typename T>
T product(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x * y; });
}

template <typename T>
T sum(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x + y; });
}

template <typename T>
T difference(T a, T b) {
  return wrapping(a, b, [](auto x, auto y) { return x - y; });
}

// C's quotient, also for the one that overflows. b is not zero.
template <typename T>
T truncated_quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return difference(T{0}, a);
    return a / b;
  } else {
    return std::trunc(a / b);
  }
}

template <typename T>
T truncated_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : a % b;
  } else {
    return std::fmod(a, b);
  }
}

// With the sign of b.
template <typename T>
T floored_remainder(T a, T b) {
  const T remainder = truncated_remainder(a, b);
  return remainder != T{0} && (remainder < T{0}) != (b < T{0}) ? remainder + b : remainder;
}

// As Python's divmod: exact where a / b rounded up to an integer.
template <typename T>
T floored_quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T quotient = truncated_quotient(a, b);
    return truncated_remainder(a, b) != T{0} && (a < T{0}) != (b < T{0}) ? quotient - 1 : quotient;
  } else {
    if (b == T{0}) return a / b;
    const T quotient = (a - floored_remainder(a, b)) / b;
    if (quotient == T{0}) return std::copysign(T{0}, a / b);
    const T floored = std::floor(quotient);
    return quotient - floored > T{0.5} ? floored + 1 : floored;
  }
}

template <typename T>
T power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < T{0}) {
      const bool odd = b % 2 != 0;
      return a == T{1} ? T{1} : a == static_cast<T>(-1) ? (odd ? a : T{1}) : T{0};
    }
    T result = 1;
    for (; b > T{0}; b /= 2, a = product(a, a)) {
      if (b % 2 != 0) result = product(result, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

struct Add : ForAll {
  template <typename T>
  static T apply(T a, T b, T alpha) {
    return sum(a, product(alpha, b));
  }
};
struct Sub : ForAll {
  template <typename T>
  static T apply(T a, T b, T alpha) {
    return difference(a, product(alpha, b));
  }
};
struct Mul : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return product(a, b);
  }
};
struct Div : ForFloats {
  template <typename T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct DivFloor : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return floored_quotient(a, b);
  }
};
struct DivTrunc : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return truncated_quotient(a, b);
  }
};
struct Remainder : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return floored_remainder(a, b);
  }
};
struct Fmod : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return truncated_remainder(a, b);
  }
};
struct Pow : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return power(a, b);
  }
};
struct Atan2 : ForFloats {
  template <typename T>
  static T apply(T a, T b) {
    return std::atan2(a, b);
  }
};
struct Maximum : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return is_nan(a) || a > b ? a : b;
  }
};
struct Minimum : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return is_nan(a) || a < b ? a : b;
  }
};
struct BitwiseAnd : ForIntegers {
  template <typename T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct BitwiseOr : ForIntegers {
  template <typename T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct BitwiseXor : ForIntegers {
  template <typename T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
// A shift by more bits than there are, or by a negative number, shifts everything out.
struct LeftShift : ForIntegers {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<uint64_t>(b) >= 64 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << b);
  }
};
struct RightShift : ForIntegers {
  template <typename T>
  static T apply(T a, T b) {
    if (static_cast<uint64_t>(b) < 64) return a >> b;
    return a < T{0} ? static_cast<T>(-1) : T{0};
  }
};

constexpr BinaryOp without_zero(BinaryOp op) {
  op.refuses_zero = true;
  return op;
}

constexpr BinaryOp kAdd = binary_op<Add>();
constexpr BinaryOp kSub = binary_op<Sub>();
constexpr BinaryOp kMul = binary_op<Mul>();
constexpr BinaryOp kDiv = binary_op<Div>(Domain::Floating);
constexpr BinaryOp kDivFloor = without_zero(binary_op<DivFloor>());
constexpr BinaryOp kDivTrunc = without_zero(binary_op<DivTrunc>());
constexpr BinaryOp kRemainder = without_zero(binary_op<Remainder>());
constexpr BinaryOp kFmod = without_zero(binary_op<Fmod>());
constexpr BinaryOp kPow = binary_op<Pow>();
constexpr BinaryOp kAtan2 = binary_op<Atan2>(Domain::Floating);
constexpr BinaryOp kMaximum = binary_op<Maximum>();
constexpr BinaryOp kMinimum = binary_op<Minimum>();
constexpr BinaryOp kBitwiseAnd = binary_op<BitwiseAnd>(Domain::Integral);
constexpr BinaryOp kBitwiseOr = binary_op<BitwiseOr>(Domain::Integral);
constexpr BinaryOp kBitwiseXor = binary_op<BitwiseXor>(Domain::Integral);
constexpr BinaryOp kLeftShift = binary_op<LeftShift>(Domain::Integral);
constexpr BinaryOp kRightShift = binary_op<RightShift>(Domain::Integral);

Error divide(const Operand& a, const Operand& b, const std::optional<std::string_view>& mode,
             Tensor& out) {
  if (!mode) return apply_binary(kDiv, a, b, out);
  if (*mode == "floor") return apply_binary(kDivFloor, a, b, out);
  if (*mode == "trunc") return apply_binary(kDivTrunc, a, b, out);
  return make_error(Error::InvalidArgument, "rounding mode \"%s\", expected \"floor\" or \"trunc\"",
                    std::string(*mode).c_str());
}

}  // namespace

PTERON_DEFINE_KERNEL(add_out, (const Tensor& a, const Tensor& b, Scalar alpha, Tensor& out)) {
  return apply_binary(kAdd, a, b, alpha, out);
}
PTERON_DEFINE_KERNEL(add_scalar_out, (const Tensor& a, Scalar b, Scalar alpha, Tensor& out)) {
  return apply_binary(kAdd, a, b, alpha, out);
}
PTERON_DEFINE_KERNEL(sub_out, (const Tensor& a, const Tensor& b, Scalar alpha, Tensor& out)) {
  return apply_binary(kSub, a, b, alpha, out);
}
PTERON_DEFINE_KERNEL(sub_scalar_out, (const Tensor& a, Scalar b, Scalar alpha, Tensor& out)) {
  return apply_binary(kSub, a, b, alpha, out);
}
PTERON_DEFINE_KERNEL(rsub_out, (const Tensor& a, const Tensor& b, Scalar alpha, Tensor& out)) {
  return apply_binary(kSub, b, a, alpha, out);
}
PTERON_DEFINE_KERNEL(rsub_scalar_out, (const Tensor& a, Scalar b, Scalar alpha, Tensor& out)) {
  return apply_binary(kSub, b, a, alpha, out);
}
PTERON_DEFINE_KERNEL(div_mode_out, (const Tensor& a, const Tensor& b,
                                    std::optional<std::string_view> mode, Tensor& out)) {
  return divide(a, b, mode, out);
}
PTERON_DEFINE_KERNEL(div_scalar_mode_out, (const Tensor& a, Scalar b,
                                           std::optional<std::string_view> mode, Tensor& out)) {
  return divide(a, b, mode, out);
}

#define PTERON_TENSOR_TENSOR(name, op)                                          \
  PTERON_DEFINE_KERNEL(name, (const Tensor& a, const Tensor& b, Tensor& out)) { \
    return apply_binary(op, a, b, out);                                         \
  }
#define PTERON_TENSOR_SCALAR(name, op)                                   \
  PTERON_DEFINE_KERNEL(name, (const Tensor& a, Scalar b, Tensor& out)) { \
    return apply_binary(op, a, b, out);                                  \
  }
#define PTERON_SCALAR_TENSOR(name, op)                                   \
  PTERON_DEFINE_KERNEL(name, (Scalar a, const Tensor& b, Tensor& out)) { \
    return apply_binary(op, a, b, out);                                  \
  }
PTERON_TENSOR_TENSOR(mul_out, kMul)
PTERON_TENSOR_SCALAR(mul_scalar_out, kMul)
PTERON_TENSOR_TENSOR(div_out, kDiv)
PTERON_TENSOR_SCALAR(div_scalar_out, kDiv)
PTERON_TENSOR_TENSOR(floor_divide_out, kDivFloor)
PTERON_TENSOR_SCALAR(floor_divide_scalar_out, kDivFloor)
PTERON_TENSOR_TENSOR(remainder_out, kRemainder)
PTERON_TENSOR_SCALAR(remainder_scalar_out, kRemainder)
PTERON_SCALAR_TENSOR(remainder_scalar_tensor_out, kRemainder)
PTERON_TENSOR_TENSOR(fmod_out, kFmod)
PTERON_TENSOR_SCALAR(fmod_scalar_out, kFmod)
PTERON_TENSOR_TENSOR(pow_out, kPow)
PTERON_TENSOR_SCALAR(pow_tensor_scalar_out, kPow)
PTERON_SCALAR_TENSOR(pow_scalar_tensor_out, kPow)
PTERON_TENSOR_TENSOR(atan2_out, kAtan2)
PTERON_TENSOR_TENSOR(maximum_out, kMaximum)
PTERON_TENSOR_TENSOR(minimum_out, kMinimum)
PTERON_TENSOR_TENSOR(bitwise_and_out, kBitwiseAnd)
PTERON_TENSOR_SCALAR(bitwise_and_scalar_out, kBitwiseAnd)
PTERON_TENSOR_TENSOR(bitwise_or_out, kBitwiseOr)
PTERON_TENSOR_SCALAR(bitwise_or_scalar_out, kBitwiseOr)
PTERON_TENSOR_TENSOR(bitwise_xor_out, kBitwiseXor)
PTERON_TENSOR_SCALAR(bitwise_xor_scalar_out, kBitwiseXor)
PTERON_TENSOR_TENSOR(left_shift_out, kLeftShift)
PTERON_TENSOR_SCALAR(left_shift_scalar_out, kLeftShift)
PTERON_TENSOR_TENSOR(right_shift_out, kRightShift)
PTERON_TENSOR_SCALAR(right_shift_scalar_out, kRightShift)

}  // namespace pteron::kernels
