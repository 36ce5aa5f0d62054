// Checks that the CPU's shims share.
#pragma once

#include <string>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cpu {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using aoti::check_pointer;
using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// A defined tensor in the host's memory; `name` is the parameter's.
inline Error check_cpu_tensor(AtenTensorHandle tensor, const char* name) {
  PTERON_RETURN_IF_ERROR(aoti::check_defined(tensor, name));
  PTERON_CHECK_OR_RETURN(tensor->device().type == DeviceType::CPU, Error::InvalidArgument,
                         "%s is on device type %d, expected a CPU tensor", name,
                         static_cast<int>(tensor->device().type));
  return Error::Ok;
}

// `tensor` may be null or lead to a null handle: absent.
inline AtenTensorHandle optional(AtenTensorHandle* tensor) { return tensor ? *tensor : nullptr; }

}  // namespace pteron::cpu

// The error for a dtype that no branch of a dispatch took.
#define PTERON_CPU_NO_DTYPE(tensor)                                                    \
  ::pteron::make_error(::pteron::Error::NotSupported, "no kernel for the dtype of %s", \
                       (tensor)->describe().c_str())
