// Writing where a mask holds.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// The elements of `source`, in order, go to where `mask` holds. All in one dimension, row-major.
struct MaskedScatterCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& mask;  // bool, of the size of out
  // Of the dtype of out. InvalidArgument if it has too few elements, on devices that can tell
  // without a wait; others write only those that there are.
  const slim::SlimTensor& source;
};

}  // namespace pteron::aoti
