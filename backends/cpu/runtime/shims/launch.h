// Helpers of the operators' kernels.
#pragma once

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/rows.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// Row-major with `dtype`: an alias if it already is.
inline Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return slim::contiguous_tensor(tensor);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, slim::make_tensor(tensor.sizes(), dtype));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor));
  return copy;
}

}  // namespace pteron::cpu
