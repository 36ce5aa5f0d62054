// Writing elements selected by a mask.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// masked_scatter: writes the elements of `source`, in order, where `mask` is true. All 1-d,
// row-major.
struct MaskedScatterCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& mask;  // bool, same size as out
  // Same dtype as out. If it has too few elements: InvalidArgument on devices that can check
  // without synchronizing; others write as many as there are.
  const slim::SlimTensor& source;
};

}  // namespace pteron::aoti
