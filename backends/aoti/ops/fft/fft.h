// Fourier transforms along a dimension.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = scale * the transform of `in` along `dim`. Either may be of real numbers; of the result real
// parts are kept then. `in` may be `out`.
struct FftCall {
  // float32, float64, complex64 or complex128, any strides. Complex rows that are shorter than the
  // transform stand for a whole whose other part is conjugate.
  const slim::SlimTensor& in;
  const slim::SlimTensor& out;  // of the same precision; may be shorter along `dim` than the whole
  size_t dim;
  int64_t length;  // of the transform
  bool forward;
  double scale;
};

}  // namespace pteron::aoti
