// Declarations of the C functions of shims.inc, with private names. A definition that differs from
// the list does not compile.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"

namespace pteron::aoti {

using CUDAGuardHandle = slim::CudaGuard*;
using CUDAStreamGuardHandle = slim::CudaStreamGuard*;

#define AOTI_COMMON_SHIM(name, since, type, parameters) PTERON_AOTI_SHIM(type, name) parameters;
#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"

}  // namespace pteron::aoti
