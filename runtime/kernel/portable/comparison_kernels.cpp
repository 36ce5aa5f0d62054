// Elementwise operators that answer yes or no, and the choice between two tensors.
#include "pteron/runtime/kernel/portable/elementwise.h"
#include "pteron/runtime/kernel/portable/kernels.h"

namespace pteron::kernels {
namespace {

#define PTERON_PREDICATE(name, expression) \
  struct name : ForAll {                   \
    template <typename T>                  \
    static T apply(T a, T b) {             \
      return static_cast<T>(expression);   \
    }                                      \
  }
PTERON_PREDICATE(Eq, a == b);
PTERON_PREDICATE(Ne, a != b);
PTERON_PREDICATE(Lt, a < b);
PTERON_PREDICATE(Le, a <= b);
PTERON_PREDICATE(Gt, a > b);
PTERON_PREDICATE(Ge, a >= b);
PTERON_PREDICATE(LogicalAnd, (a != T{0}) & (b != T{0}));
PTERON_PREDICATE(LogicalOr, (a != T{0}) | (b != T{0}));
PTERON_PREDICATE(LogicalXor, (a != T{0}) != (b != T{0}));
#undef PTERON_PREDICATE

}  // namespace

#define PTERON_COMPARISON(name, Op)                                                   \
  PTERON_DEFINE_KERNEL(name##_out, (const Tensor& a, const Tensor& b, Tensor& out)) { \
    return apply_binary(binary_op<Op>(), a, b, out);                                  \
  }                                                                                   \
  PTERON_DEFINE_KERNEL(name##_scalar_out, (const Tensor& a, Scalar b, Tensor& out)) { \
    return apply_binary(binary_op<Op>(), a, b, out);                                  \
  }
PTERON_COMPARISON(eq, Eq)
PTERON_COMPARISON(ne, Ne)
PTERON_COMPARISON(lt, Lt)
PTERON_COMPARISON(le, Le)
PTERON_COMPARISON(gt, Gt)
PTERON_COMPARISON(ge, Ge)

#define PTERON_LOGICAL(name, Op)                                                      \
  PTERON_DEFINE_KERNEL(name##_out, (const Tensor& a, const Tensor& b, Tensor& out)) { \
    return apply_binary(binary_op<Op>(), a, b, out);                                  \
  }
PTERON_LOGICAL(logical_and, LogicalAnd)
PTERON_LOGICAL(logical_or, LogicalOr)
PTERON_LOGICAL(logical_xor, LogicalXor)

PTERON_DEFINE_KERNEL(where_out,
                     (const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out)) {
  return apply_where(condition, a, b, out);
}
PTERON_DEFINE_KERNEL(masked_fill_scalar_out,
                     (const Tensor& a, const Tensor& mask, Scalar value, Tensor& out)) {
  return apply_where(mask, value, a, out);
}
PTERON_DEFINE_KERNEL(masked_fill_out,
                     (const Tensor& a, const Tensor& mask, const Tensor& value, Tensor& out)) {
  return apply_where(mask, value, a, out);
}

}  // namespace pteron::kernels
