// Operands as kernels want them.
#pragma once

#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::cpu {

// Row-major and of `dtype`: an alias where it is so already.
inline Result<slim::TensorPtr> converted(const slim::SlimTensor& tensor, slim::DType dtype) {
  if (tensor.dtype() == dtype) return slim::contiguous_tensor(tensor);
  PTERON_ASSIGN_OR_RETURN(slim::TensorPtr copy, slim::make_tensor(tensor.sizes(), dtype));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor));
  return copy;
}

}  // namespace pteron::cpu
