// The functions of the CUDA driver (libcuda.so.1) that we and compiled models call.
//
//   PTERON_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
//   driver->cuModuleUnload(module);
//
// Opened at the first call; a machine without a driver gets NotFound and can try again later.
// Thread-safe.
#pragma once

#include <cuda.h>

#include "pteron/runtime/core/result.h"

// (name, exported symbol): the symbol has the version suffix that the header's macro selects.
#define PTERON_CUDA_DRIVER_FUNCTIONS(FUNCTION)                             \
  FUNCTION(cuFuncGetParamInfo, "cuFuncGetParamInfo")                       \
  FUNCTION(cuFuncSetAttribute, "cuFuncSetAttribute")                       \
  FUNCTION(cuGetErrorString, "cuGetErrorString")                           \
  FUNCTION(cuGraphKernelNodeGetAttribute, "cuGraphKernelNodeGetAttribute") \
  FUNCTION(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2")    \
  FUNCTION(cuLaunchKernel, "cuLaunchKernel")                               \
  FUNCTION(cuLaunchKernelEx, "cuLaunchKernelEx")                           \
  FUNCTION(cuModuleGetFunction, "cuModuleGetFunction")                     \
  FUNCTION(cuModuleLoadData, "cuModuleLoadData")                           \
  FUNCTION(cuModuleUnload, "cuModuleUnload")                               \
  FUNCTION(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled")

namespace pteron::cuda {

struct Driver {
#define PTERON_DECLARE(name, symbol) decltype(&::name) name = nullptr;
  PTERON_CUDA_DRIVER_FUNCTIONS(PTERON_DECLARE)
#undef PTERON_DECLARE

  // The table lives as long as the process.
  static Result<const Driver*> get();
};

}  // namespace pteron::cuda
