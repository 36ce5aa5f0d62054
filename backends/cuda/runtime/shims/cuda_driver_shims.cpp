// CUDA driver functions for compiled models, under private names. They forward to the driver, which
// is opened on demand; modules are recorded for the model whose ExecutionScope is open, because
// most models never unload theirs.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/platform/driver.h"

namespace {

using pteron::Result;
using pteron::cuda::Driver;
using pteron::cuda::ExecutionResources;
using pteron::cuda::ExecutionScope;

// Null without a driver.
const Driver* driver() {
  static thread_local const Driver* known = nullptr;
  if (__builtin_expect(known != nullptr, 1)) return known;
  Result<const Driver*> opened = Driver::get();
  if (opened.ok()) known = *opened;
  return known;
}

}  // namespace

PTERON_SHIM_EXPORT CUresult ptFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                               int value) {
  const Driver* table = driver();
  return table ? table->cuFuncSetAttribute(function, attribute, value) : CUDA_ERROR_NOT_INITIALIZED;
}

// Works without a driver too: models query the message of every status, including success.
PTERON_SHIM_EXPORT CUresult ptGetErrorString(CUresult error, const char** message) {
  if (__builtin_expect(error == CUDA_SUCCESS, 1)) {
    *message = "no error";
    return CUDA_SUCCESS;
  }
  if (const Driver* table = driver()) return table->cuGetErrorString(error, message);
  *message = "there is no CUDA driver on this machine";
  return CUDA_SUCCESS;
}

PTERON_SHIM_EXPORT CUresult ptLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                           unsigned grid_z, unsigned block_x, unsigned block_y,
                                           unsigned block_z, unsigned shared_nbytes,
                                           CUstream stream, void** parameters, void** extra) {
  const Driver* table = driver();
  if (__builtin_expect(table == nullptr, 0)) return CUDA_ERROR_NOT_INITIALIZED;
  return table->cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                               shared_nbytes, stream, parameters, extra);
}

// For kernels that begin by waiting for those before them (griddepcontrol.wait): the GPU may start
// them while the last one ends.
PTERON_SHIM_EXPORT CUresult ptLaunchKernelEarly(CUfunction function, unsigned grid_x,
                                                unsigned grid_y, unsigned grid_z, unsigned block_x,
                                                unsigned block_y, unsigned block_z,
                                                unsigned shared_nbytes, CUstream stream,
                                                void** parameters, void** extra) {
  const Driver* table = driver();
  if (__builtin_expect(table == nullptr, 0)) return CUDA_ERROR_NOT_INITIALIZED;
  CUlaunchAttribute early{};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{grid_x,  grid_y,        grid_z, block_x, block_y,
                              block_z, shared_nbytes, stream, &early,  1};
  return table->cuLaunchKernelEx(&config, function, parameters, extra);
}

PTERON_SHIM_EXPORT CUresult ptModuleGetFunction(CUfunction* function, CUmodule module,
                                                const char* name) {
  const Driver* table = driver();
  return table ? table->cuModuleGetFunction(function, module, name) : CUDA_ERROR_NOT_INITIALIZED;
}

PTERON_SHIM_EXPORT CUresult ptModuleLoadData(CUmodule* module, const void* image) {
  const Driver* table = driver();
  if (table == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult status = table->cuModuleLoadData(module, image);
  if (status != CUDA_SUCCESS) return status;
  const ExecutionResources* scope = ExecutionScope::current();
  int device = 0;
  if (scope && scope->modules && cudaGetDevice(&device) == cudaSuccess) {
    scope->modules->add(*module, device);
  }
  return status;
}

PTERON_SHIM_EXPORT CUresult ptModuleUnload(CUmodule module) {
  const Driver* table = driver();
  if (table == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const ExecutionResources* scope = ExecutionScope::current();
  if (scope && scope->modules) (void)scope->modules->remove(module);
  return table->cuModuleUnload(module);
}

PTERON_SHIM_EXPORT CUresult ptTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box_sizes,
    const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const Driver* table = driver();
  if (table == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return table->cuTensorMapEncodeTiled(map, type, rank, address, sizes, strides, box_sizes,
                                       element_strides, interleave, swizzle, promotion, fill);
}
