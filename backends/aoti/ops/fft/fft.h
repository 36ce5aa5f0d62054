// FFT along a dimension.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = scale * the transform of `in` along `dim`. Either may be real; a real result keeps the real
// parts. `in` may be `out`.
struct FftCall {
  // float32, float64, complex64 or complex128, any strides. Complex rows shorter than the transform
  // are the one-sided half of a conjugate-symmetric row.
  const slim::SlimTensor& in;
  const slim::SlimTensor& out;  // same precision; may be one-sided along `dim`
  size_t dim;
  int64_t length;  // length of the transform
  bool forward;
  double scale;
};

}  // namespace pteron::aoti
