// Converts CUDA status codes to Errors.
//
//   PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(...), "copying input 0");
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// Ok for cudaSuccess; MemoryAllocationFailed for out of memory; NotFound without a device or
// driver; AccessFailed for anything else. The message is "`what`: `name` (`description`)". Clears
// cudaGetLastError(), so that a later launch check does not report this error again.
Error cuda_error(cudaError_t status, const char* what);

// The number of usable devices; 0 without a driver. Queries the driver once and caches a result
// above 0. Thread-safe.
int device_count();

}  // namespace pteron::cuda

#define PTERON_CUDA_RETURN_IF_ERROR(expression, what)          \
  do {                                                         \
    const cudaError_t pteron_status_ = (expression);           \
    if (__builtin_expect(pteron_status_ != cudaSuccess, 0)) {  \
      return ::pteron::cuda::cuda_error(pteron_status_, what); \
    }                                                          \
  } while (false)
