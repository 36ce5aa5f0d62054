// Kernels that compute each element from the elements at the same index, over a block at a time.
//
//   struct Add {
//     template <typename T>
//     static T apply(T a, T b, T alpha) { return a + alpha * b; }
//   };
//   constexpr BinaryOp kAdd = binary_op<Add>();
//   return apply_binary(kAdd, a, b, alpha, out);
//
// Every dtype is computed in one of four types (float, double, int64_t, uint64_t; see convert.h),
// so an operator is four small loops, and what surrounds them exists once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/kernel/portable/arguments.h"
#include "pteron/runtime/kernel/portable/promotion.h"

namespace pteron::kernels {

template <typename T>
using UnaryLoop = void (*)(const T* a, T* out, int64_t count, T p, T q);
template <typename T>
using BinaryLoop = void (*)(const T* a, const T* b, T* out, int64_t count, T p);

// What the operands are computed in.
enum class Domain : uint8_t {
  Any,       // their common dtype
  Floating,  // the same, float for integers
  Integral,  // the same; floating types are refused
};

template <template <typename> typename Loop>
struct Loops {
  Loop<float> of_float = nullptr;
  Loop<double> of_double = nullptr;
  Loop<int64_t> of_int = nullptr;
  Loop<uint64_t> of_unsigned = nullptr;

  template <typename T>
  Loop<T> get() const {
    if constexpr (std::is_same_v<T, float>) return of_float;
    if constexpr (std::is_same_v<T, double>) return of_double;
    if constexpr (std::is_same_v<T, int64_t>) return of_int;
    if constexpr (std::is_same_v<T, uint64_t>) return of_unsigned;
  }
};

struct UnaryOp {
  Loops<UnaryLoop> loops;
  Domain domain = Domain::Any;
};

struct BinaryOp {
  Loops<BinaryLoop> loops;
  Domain domain = Domain::Any;
  bool refuses_zero = false;  // as the second operand, when computed in integers
};

namespace internal {

template <typename Op, typename T>
void unary_loop(const T* a, T* out, int64_t count, [[maybe_unused]] T p, [[maybe_unused]] T q) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_invocable_v<decltype(Op::template apply<T>), T, T, T>) {
      out[i] = Op::template apply<T>(a[i], p, q);
    } else {
      out[i] = Op::template apply<T>(a[i]);
    }
  }
}

template <typename Op, typename T>
void binary_loop(const T* a, const T* b, T* out, int64_t count, [[maybe_unused]] T p) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_invocable_v<decltype(Op::template apply<T>), T, T, T>) {
      out[i] = Op::template apply<T>(a[i], b[i], p);
    } else {
      out[i] = Op::template apply<T>(a[i], b[i]);
    }
  }
}

}  // namespace internal

template <typename Op>
constexpr UnaryOp unary_op(Domain domain = Domain::Any) {
  UnaryOp op;
  op.domain = domain;
  if constexpr (!Op::kIntegersOnly) {
    op.loops.of_float = internal::unary_loop<Op, float>;
    op.loops.of_double = internal::unary_loop<Op, double>;
  }
  if constexpr (!Op::kFloatsOnly) {
    op.loops.of_int = internal::unary_loop<Op, int64_t>;
    op.loops.of_unsigned = internal::unary_loop<Op, uint64_t>;
  }
  return op;
}

template <typename Op>
constexpr BinaryOp binary_op(Domain domain = Domain::Any) {
  BinaryOp op;
  op.domain = domain;
  if constexpr (!Op::kIntegersOnly) {
    op.loops.of_float = internal::binary_loop<Op, float>;
    op.loops.of_double = internal::binary_loop<Op, double>;
  }
  if constexpr (!Op::kFloatsOnly) {
    op.loops.of_int = internal::binary_loop<Op, int64_t>;
    op.loops.of_unsigned = internal::binary_loop<Op, uint64_t>;
  }
  return op;
}

// Bases of an Op, which say what it is defined for.
struct ForAll {
  static constexpr bool kFloatsOnly = false;
  static constexpr bool kIntegersOnly = false;
};
struct ForFloats {
  static constexpr bool kFloatsOnly = true;
  static constexpr bool kIntegersOnly = false;
};
struct ForIntegers {
  static constexpr bool kFloatsOnly = false;
  static constexpr bool kIntegersOnly = true;
};

// Each gives `out` the broadcast sizes of its operands and writes it in its own dtype.
// InvalidArgument: sizes; InvalidType: the operator is not defined for the operands' dtype.
Error apply_unary(const UnaryOp& op, const Tensor& a, const Scalar& p, const Scalar& q,
                  Tensor& out);
inline Error apply_unary(const UnaryOp& op, const Tensor& a, Tensor& out) {
  return apply_unary(op, a, int64_t{0}, int64_t{0}, out);
}
Error apply_binary(const BinaryOp& op, const Operand& a, const Operand& b, const Scalar& p,
                   Tensor& out);
inline Error apply_binary(const BinaryOp& op, const Operand& a, const Operand& b, Tensor& out) {
  return apply_binary(op, a, b, int64_t{1}, out);
}
// a where `condition` is not zero, else b.
Error apply_where(const Tensor& condition, const Operand& a, const Operand& b, Tensor& out);

}  // namespace pteron::kernels
