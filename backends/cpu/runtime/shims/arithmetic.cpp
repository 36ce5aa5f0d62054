#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"

#include <cmath>
#include <complex>

#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::ArithmeticCall;
using Kind = ArithmeticCall::Kind;

// Row-major, all of one dtype.
struct Operands {
  const SlimTensor& a;
  const SlimTensor& b;
  const SlimTensor& out;
};

// out[i] = op(a[i], b[i])
template <typename In, typename Out = In, typename Op>
Error apply(const Operands& operands, const Op& op) {
  const In* const x = operands.a.data_as<const In>();
  const In* const y = operands.b.data_as<const In>();
  Out* const z = operands.out.data_as<Out>();
  parallel_for(operands.out.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) z[i] = op(x[i], y[i]);
  });
  return Error::Ok;
}

uint64_t power(uint64_t base, int64_t exponent) {
  if (exponent < 0) {
    const auto value = static_cast<int64_t>(base);
    if (value != 1 && value != -1) return 0;
    return exponent % 2 == 0 ? 1 : base;
  }
  uint64_t result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

Error of_integers(const ArithmeticCall& call, const Operands& operands) {
  const auto scale = static_cast<uint64_t>(static_cast<int64_t>(call.alpha));
  using U = uint64_t;
  switch (call.kind) {
    case Kind::kAdd:
      return apply<U>(operands, [scale](U x, U y) { return x + scale * y; });
    case Kind::kMultiply:
      return apply<U>(operands, [](U x, U y) { return x * y; });
    case Kind::kPower:
      return apply<U>(operands, [](U x, U y) { return power(x, static_cast<int64_t>(y)); });
    default:
      // abs of the minimum wraps to itself.
      return apply<U>(operands, [](U x, U) { return x >> 63 ? 0 - x : x; });
  }
}

template <typename T>
Error of_real(const ArithmeticCall& call, const Operands& operands) {
  const T scale = static_cast<T>(call.alpha);
  switch (call.kind) {
    case Kind::kAdd:
      return apply<T>(operands, [scale](T x, T y) { return x + scale * y; });
    case Kind::kMultiply:
      return apply<T>(operands, [](T x, T y) { return x * y; });
    case Kind::kPower:
      return apply<T>(operands, [](T x, T y) { return std::pow(x, y); });
    case Kind::kAbsolute:
      return apply<T>(operands, [](T x, T) { return std::abs(x); });
    case Kind::kPolar:
      return apply<T, std::complex<T>>(
          operands, [](T x, T y) { return std::complex<T>(x * std::cos(y), x * std::sin(y)); });
  }
  return Error::Ok;
}

template <typename T>
Error of_complex(const ArithmeticCall& call, const Operands& operands) {
  using C = std::complex<T>;
  const T scale = static_cast<T>(call.alpha);
  switch (call.kind) {
    case Kind::kAdd:
      return apply<C>(operands, [scale](C x, C y) { return x + scale * y; });
    case Kind::kMultiply:
      return apply<C>(operands, [](C x, C y) { return x * y; });
    case Kind::kPower:
      return apply<C>(operands, [](C x, C y) {
        return x == T{0} ? C(y == T{0} ? T{1} : T{0}) : std::pow(x, y);
      });
    default:
      return apply<C, T>(operands, [](C x, C) { return std::abs(x); });
  }
}

// 16-bit floats and complex half are computed in the next wider type, integers in int64.
DType computing_type(DType dtype) {
  if (dtype == DType::ComplexHalf) return DType::ComplexFloat;
  if (slim::is_complex(dtype) || dtype == DType::Double) return dtype;
  return slim::is_floating_point(dtype) ? DType::Float : DType::Long;
}

}  // namespace

Error arithmetic(const ArithmeticCall& call) {
  const bool converts = call.kind == Kind::kAbsolute || call.kind == Kind::kPolar;
  const DType from = computing_type(converts ? call.a.dtype() : call.out.dtype());
  const DType to = computing_type(call.out.dtype());
  const Span<const int64_t> sizes = call.out.sizes();
  PTERON_ASSIGN_OR_RETURN(TensorPtr a, slim::make_tensor(sizes, from));
  PTERON_ASSIGN_OR_RETURN(TensorPtr b, slim::make_tensor(sizes, from));
  PTERON_ASSIGN_OR_RETURN(TensorPtr result, slim::make_tensor(sizes, to));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*a, call.a));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*b, call.b));
  const Operands operands{*a, *b, *result};
  if (from == DType::Long) {
    PTERON_RETURN_IF_ERROR(of_integers(call, operands));
  } else if (from == DType::Float) {
    PTERON_RETURN_IF_ERROR(of_real<float>(call, operands));
  } else if (from == DType::Double) {
    PTERON_RETURN_IF_ERROR(of_real<double>(call, operands));
  } else if (from == DType::ComplexFloat) {
    PTERON_RETURN_IF_ERROR(of_complex<float>(call, operands));
  } else {
    PTERON_RETURN_IF_ERROR(of_complex<double>(call, operands));
  }
  return slim::copy_tensor(call.out, *result);
}

}  // namespace pteron::cpu
