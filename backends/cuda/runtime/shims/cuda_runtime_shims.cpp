// CUDA runtime functions for compiled models, under private names: models are linked without a CUDA
// runtime, so that they use the one in this library even if the process has others.
#include <cuda_runtime_api.h>

#include "pteron/backends/aoti/shims/shim_export.h"

PTERON_SHIM_EXPORT cudaError_t ptrnEventCreate(cudaEvent_t* event) {
  return cudaEventCreate(event);
}
PTERON_SHIM_EXPORT cudaError_t ptrnEventDestroy(cudaEvent_t event) {
  return cudaEventDestroy(event);
}
PTERON_SHIM_EXPORT cudaError_t ptrnEventQuery(cudaEvent_t event) { return cudaEventQuery(event); }
PTERON_SHIM_EXPORT cudaError_t ptrnEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, stream);
}
PTERON_SHIM_EXPORT cudaError_t ptrnEventSynchronize(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}
PTERON_SHIM_EXPORT cudaError_t ptrnFree(void* data) { return cudaFree(data); }
PTERON_SHIM_EXPORT cudaError_t ptrnGetDevice(int* device) { return cudaGetDevice(device); }
PTERON_SHIM_EXPORT const char* ptrnGetErrorString(cudaError_t error) {
  return cudaGetErrorString(error);
}
PTERON_SHIM_EXPORT cudaError_t ptrnGetLastError() { return cudaGetLastError(); }
PTERON_SHIM_EXPORT cudaError_t ptrnMalloc(void** data, size_t nbytes) {
  return cudaMalloc(data, nbytes);
}
PTERON_SHIM_EXPORT cudaError_t ptrnMemcpy(void* target, const void* source, size_t nbytes,
                                          cudaMemcpyKind kind) {
  return cudaMemcpy(target, source, nbytes, kind);
}
PTERON_SHIM_EXPORT cudaError_t ptrnSetDevice(int device) { return cudaSetDevice(device); }
