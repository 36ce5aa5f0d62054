// Arithmetic that Inductor does not generate: complex dtypes. Real dtypes work too.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = a + alpha b, a b, a ^ b, |a|, or polar(a, b).
struct ArithmeticCall {
  // Integers wrap. Integer powers with a negative exponent truncate to 0.
  enum class Kind { kAdd, kMultiply, kPower, kAbsolute, kPolar };

  Kind kind;
  double alpha;  // of kAdd
  const slim::SlimTensor& a;
  const slim::SlimTensor& b;  // equal to a for unary operations
  // Same sizes as a and b, any strides. Dtype: for kAbsolute the real dtype of a, for kPolar the
  // complex dtype, otherwise the computation dtype.
  const slim::SlimTensor& out;
};

}  // namespace pteron::aoti
