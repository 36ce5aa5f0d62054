// How torch brings tensors of several dtypes together.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Complex numbers of these parts, and the parts of these complex numbers; others as they are.
slim::DType complex_of(slim::DType real);
slim::DType real_of(slim::DType complex);

// A tensor without dimensions counts only where its kind (bool, integer, floating-point, complex)
// is the higher one.
slim::DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b);

}  // namespace pteron::aoti
