// Arithmetic that generated code leaves to us: that of complex numbers. Real ones work as well.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = a + alpha b, a b, a ^ b, |a|, or the complex number of length a and angle b.
struct ArithmeticCall {
  // Integers wrap. Powers of integers with a negative exponent are rounded to 0.
  enum class Kind { kAdd, kMultiply, kPower, kAbsolute, kPolar };

  Kind kind;
  double alpha;  // of kAdd
  const slim::SlimTensor& a;
  const slim::SlimTensor& b;  // a where there is no other
  // Of the sizes of a and of b, any strides. Of kAbsolute the real dtype of a, of kPolar the complex one;
  // else that in which is computed.
  const slim::SlimTensor& out;
};

}  // namespace pteron::aoti
