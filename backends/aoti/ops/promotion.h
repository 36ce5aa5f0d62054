// The dtype in which torch computes with tensors of several.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// A tensor without dimensions counts only where its kind (bool, integer, floating-point, complex)
// is the higher one.
slim::DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b);

}  // namespace pteron::aoti
