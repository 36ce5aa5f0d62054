// torch's type promotion.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// The complex dtype of a real one and the reverse; other dtypes unchanged.
slim::DType complex_of(slim::DType real);
slim::DType real_of(slim::DType complex);

// A 0-d tensor takes part only if its category (bool, integer, floating point, complex) is higher.
slim::DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b);

}  // namespace pteron::aoti
