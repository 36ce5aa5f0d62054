// Elementwise operators of one tensor.
#include <cmath>
#include <limits>
#include <type_traits>

#include "pteron/runtime/kernel/portable/elementwise.h"
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/shapes.h"

namespace pteron::kernels {
namespace {

#define PTERON_UNARY(name, base, expression) \
  struct name : base {                       \
    template <typename T>                    \
    static T apply([[maybe_unused]] T a) {   \
      return static_cast<T>(expression);     \
    }                                        \
  }
#define PTERON_UNARY_WITH(name, base, expression)                                      \
  struct name : base {                                                                 \
    template <typename T>                                                              \
    static T apply([[maybe_unused]] T a, [[maybe_unused]] T p, [[maybe_unused]] T q) { \
      return static_cast<T>(expression);                                               \
    }                                                                                  \
  }

template <typename T>
T negative(T a) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(0 - static_cast<uint64_t>(a));
  else
    return -a;
}

template <typename T>
T magnitude(T a) {
  if constexpr (std::is_integral_v<T>)
    return a < T{0} ? negative(a) : a;
  else
    return std::fabs(a);
}

// f(a) for floating types; integers are integral already.
template <typename T, typename F>
T integral(T a, F f) {
  if constexpr (std::is_integral_v<T>)
    return a;
  else
    return f(a);
}

template <typename T>
T sigmoid(T a) {
  return T{1} / (T{1} + std::exp(-a));
}

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;

PTERON_UNARY(Abs, ForAll, magnitude(a));
PTERON_UNARY(Neg, ForAll, negative(a));
PTERON_UNARY(Sign, ForAll, T(T{0} < a) - T(a < T{0}));
PTERON_UNARY(Relu, ForAll, a < T{0} ? T{0} : a);
PTERON_UNARY(Floor, ForAll, integral(a, [](auto x) { return std::floor(x); }));
PTERON_UNARY(Ceil, ForAll, integral(a, [](auto x) { return std::ceil(x); }));
PTERON_UNARY(Round, ForAll, integral(a, [](auto x) { return std::nearbyint(x); }));
PTERON_UNARY(Trunc, ForAll, integral(a, [](auto x) { return std::trunc(x); }));
PTERON_UNARY(LogicalNot, ForAll, a == T{0});
PTERON_UNARY(BitwiseNot, ForIntegers, ~a);
PTERON_UNARY(IsNan, ForAll, a != a);
PTERON_UNARY(IsInf, ForAll, a == a && a - a != a - a);
PTERON_UNARY(Square, ForAll, T(a* a));

PTERON_UNARY(Exp, ForFloats, std::exp(a));
PTERON_UNARY(Expm1, ForFloats, std::expm1(a));
PTERON_UNARY(Log, ForFloats, std::log(a));
PTERON_UNARY(Log2, ForFloats, std::log2(a));
PTERON_UNARY(Log10, ForFloats, std::log10(a));
PTERON_UNARY(Log1p, ForFloats, std::log1p(a));
PTERON_UNARY(Sqrt, ForFloats, std::sqrt(a));
PTERON_UNARY(Rsqrt, ForFloats, T{1} / std::sqrt(a));
PTERON_UNARY(Reciprocal, ForFloats, T{1} / a);
PTERON_UNARY(Sin, ForFloats, std::sin(a));
PTERON_UNARY(Cos, ForFloats, std::cos(a));
PTERON_UNARY(Tan, ForFloats, std::tan(a));
PTERON_UNARY(Asin, ForFloats, std::asin(a));
PTERON_UNARY(Acos, ForFloats, std::acos(a));
PTERON_UNARY(Atan, ForFloats, std::atan(a));
PTERON_UNARY(Sinh, ForFloats, std::sinh(a));
PTERON_UNARY(Cosh, ForFloats, std::cosh(a));
PTERON_UNARY(Tanh, ForFloats, std::tanh(a));
PTERON_UNARY(Asinh, ForFloats, std::asinh(a));
PTERON_UNARY(Acosh, ForFloats, std::acosh(a));
PTERON_UNARY(Atanh, ForFloats, std::atanh(a));
PTERON_UNARY(Erf, ForFloats, std::erf(a));
PTERON_UNARY(Sigmoid, ForFloats, sigmoid(a));
PTERON_UNARY(Silu, ForFloats, a* sigmoid(a));
PTERON_UNARY(Gelu, ForFloats, a* T{0.5} * (T{1} + std::erf(a * T(kSqrtHalf))));
PTERON_UNARY(GeluTanh, ForFloats,
             a* T{0.5} * (T{1} + std::tanh(T(kSqrt2OverPi) * (a + T(0.044715) * a * a * a))));
PTERON_UNARY(Hardsigmoid, ForFloats, std::fmin(std::fmax(a + T{3}, T{0}), T{6}) / T{6});
PTERON_UNARY(Hardswish, ForFloats, a* std::fmin(std::fmax(a + T{3}, T{0}), T{6}) / T{6});

// p: lower limit or slope; q: upper limit.
PTERON_UNARY_WITH(Hardtanh, ForAll, a<p ? p : a> q ? q : a);
PTERON_UNARY_WITH(ClampMin, ForAll, a < p ? p : a);
PTERON_UNARY_WITH(ClampMax, ForAll, a > q ? q : a);
// As torch: when the limits cross, the upper one wins.
PTERON_UNARY_WITH(Clamp, ForAll, ClampMax::apply(ClampMin::apply(a, p, q), p, q));
PTERON_UNARY_WITH(LeakyRelu, ForFloats, a > T{0} ? a : a * p);
PTERON_UNARY_WITH(Elu, ForFloats, a > T{0} ? a : p * std::expm1(a));
PTERON_UNARY_WITH(Softplus, ForFloats, a* p > q ? a : std::log1p(std::exp(a * p)) / p);

struct SecondIfLess : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return a < b || b != b ? b : a;
  }
};
struct SecondIfGreater : ForAll {
  template <typename T>
  static T apply(T a, T b) {
    return a > b || b != b ? b : a;
  }
};

}  // namespace

#define PTERON_UNARY_KERNEL(name, Op)                          \
  PTERON_DEFINE_KERNEL(name, (const Tensor& a, Tensor& out)) { \
    return apply_unary(unary_op<Op>(), a, out);                \
  }
#define PTERON_FLOATING_KERNEL(name, Op)                        \
  PTERON_DEFINE_KERNEL(name, (const Tensor& a, Tensor& out)) {  \
    return apply_unary(unary_op<Op>(Domain::Floating), a, out); \
  }
PTERON_UNARY_KERNEL(abs_out, Abs)
PTERON_UNARY_KERNEL(neg_out, Neg)
PTERON_UNARY_KERNEL(sign_out, Sign)
PTERON_UNARY_KERNEL(relu_out, Relu)
PTERON_UNARY_KERNEL(floor_out, Floor)
PTERON_UNARY_KERNEL(ceil_out, Ceil)
PTERON_UNARY_KERNEL(round_out, Round)
PTERON_UNARY_KERNEL(trunc_out, Trunc)
PTERON_UNARY_KERNEL(logical_not_out, LogicalNot)
PTERON_UNARY_KERNEL(isnan_out, IsNan)
PTERON_UNARY_KERNEL(isinf_out, IsInf)
PTERON_UNARY_KERNEL(square_out, Square)
PTERON_FLOATING_KERNEL(exp_out, Exp)
PTERON_FLOATING_KERNEL(expm1_out, Expm1)
PTERON_FLOATING_KERNEL(log_out, Log)
PTERON_FLOATING_KERNEL(log2_out, Log2)
PTERON_FLOATING_KERNEL(log10_out, Log10)
PTERON_FLOATING_KERNEL(log1p_out, Log1p)
PTERON_FLOATING_KERNEL(sqrt_out, Sqrt)
PTERON_FLOATING_KERNEL(rsqrt_out, Rsqrt)
PTERON_FLOATING_KERNEL(reciprocal_out, Reciprocal)
PTERON_FLOATING_KERNEL(sin_out, Sin)
PTERON_FLOATING_KERNEL(cos_out, Cos)
PTERON_FLOATING_KERNEL(tan_out, Tan)
PTERON_FLOATING_KERNEL(asin_out, Asin)
PTERON_FLOATING_KERNEL(acos_out, Acos)
PTERON_FLOATING_KERNEL(atan_out, Atan)
PTERON_FLOATING_KERNEL(sinh_out, Sinh)
PTERON_FLOATING_KERNEL(cosh_out, Cosh)
PTERON_FLOATING_KERNEL(tanh_out, Tanh)
PTERON_FLOATING_KERNEL(asinh_out, Asinh)
PTERON_FLOATING_KERNEL(acosh_out, Acosh)
PTERON_FLOATING_KERNEL(atanh_out, Atanh)
PTERON_FLOATING_KERNEL(erf_out, Erf)
PTERON_FLOATING_KERNEL(sigmoid_out, Sigmoid)
PTERON_FLOATING_KERNEL(silu_out, Silu)
PTERON_FLOATING_KERNEL(hardsigmoid_out, Hardsigmoid)
PTERON_FLOATING_KERNEL(hardswish_out, Hardswish)

// Of a bool the other bool, not all bits turned.
PTERON_DEFINE_KERNEL(bitwise_not_out, (const Tensor& a, Tensor& out)) {
  if (a.dtype() == ScalarType::Bool) return apply_unary(unary_op<LogicalNot>(), a, out);
  return apply_unary(unary_op<BitwiseNot>(Domain::Integral), a, out);
}
PTERON_DEFINE_KERNEL(gelu_out, (const Tensor& a, std::string_view approximate, Tensor& out)) {
  if (approximate == "none") return apply_unary(unary_op<Gelu>(Domain::Floating), a, out);
  if (approximate == "tanh") return apply_unary(unary_op<GeluTanh>(Domain::Floating), a, out);
  return make_error(Error::InvalidArgument, "approximation \"%s\", expected \"none\" or \"tanh\"",
                    std::string(approximate).c_str());
}
PTERON_DEFINE_KERNEL(hardtanh_out, (const Tensor& a, Scalar low, Scalar high, Tensor& out)) {
  return apply_unary(unary_op<Hardtanh>(), a, low, high, out);
}
PTERON_DEFINE_KERNEL(leaky_relu_out, (const Tensor& a, Scalar slope, Tensor& out)) {
  return apply_unary(unary_op<LeakyRelu>(Domain::Floating), a, slope, int64_t{0}, out);
}
PTERON_DEFINE_KERNEL(elu_out, (const Tensor& a, Scalar alpha, Scalar scale, Scalar input_scale,
                               Tensor& out)) {
  PTERON_CHECK_OR_RETURN(scale.to<double>() == 1 && input_scale.to<double>() == 1,
                         Error::NotSupported, "elu with scale %g and input scale %g, expected 1",
                         scale.to<double>(), input_scale.to<double>());
  return apply_unary(unary_op<Elu>(Domain::Floating), a, alpha, int64_t{0}, out);
}
PTERON_DEFINE_KERNEL(softplus_out, (const Tensor& a, Scalar beta, Scalar threshold, Tensor& out)) {
  return apply_unary(unary_op<Softplus>(Domain::Floating), a, beta, threshold, out);
}

// A limit that is a float makes integers float, as in torch.
PTERON_DEFINE_KERNEL(clamp_out, (const Tensor& a, std::optional<Scalar> low,
                                 std::optional<Scalar> high, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(low || high, Error::InvalidArgument, "clamp without limits");
  const bool floating =
      (low && low->dtype() == ScalarType::Double) || (high && high->dtype() == ScalarType::Double);
  const Domain domain = floating ? Domain::Floating : Domain::Any;
  if (!high) return apply_unary(unary_op<ClampMin>(domain), a, *low, int64_t{0}, out);
  if (!low) return apply_unary(unary_op<ClampMax>(domain), a, int64_t{0}, *high, out);
  return apply_unary(unary_op<Clamp>(domain), a, *low, *high, out);
}
PTERON_DEFINE_KERNEL(clamp_tensor_out,
                     (const Tensor& a, const Tensor* low, const Tensor* high, Tensor& out)) {
  PTERON_CHECK_OR_RETURN(low || high, Error::InvalidArgument, "clamp without limits");
  if (low && high) {
    // The first step writes what the second reads, so that both must have the same shape.
    PTERON_ASSIGN_OR_RETURN(const Shape first, broadcast({a.sizes(), low->sizes()}));
    PTERON_ASSIGN_OR_RETURN(const Shape all, broadcast({first.span(), high->sizes()}));
    PTERON_CHECK_OR_RETURN(first.dim == all.dim && first.sizes == all.sizes, Error::NotSupported,
                           "clamp with an upper limit of more elements than the input, %s",
                           high->describe().c_str());
  }
  if (low) PTERON_RETURN_IF_ERROR(apply_binary(binary_op<SecondIfLess>(), a, *low, out));
  if (!high) return Error::Ok;
  return apply_binary(binary_op<SecondIfGreater>(), low ? static_cast<const Tensor&>(out) : a,
                      *high, out);
}

}  // namespace pteron::kernels
