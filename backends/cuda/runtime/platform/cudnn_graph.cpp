// Defines the functions that cudnn-frontend's headers call, by way of the function table, so that
// nothing links cuDNN. Callers have a handle, so the table exists.
#include <cudnn.h>

#include "pteron/backends/cuda/runtime/platform/cudnn.h"

namespace {
const pteron::cuda::Cudnn& cudnn() {
  static const pteron::cuda::Cudnn& table = **pteron::cuda::Cudnn::get();
  return table;
}
}  // namespace

// Hidden visibility: not exported from libraries.
#define PTERON_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

PTERON_HIDDEN size_t cudnnGetVersion() { return cudnn().cudnnGetVersion(); }

PTERON_HIDDEN const char* cudnnGetErrorString(cudnnStatus_t status) {
  return cudnn().cudnnGetErrorString(status);
}

PTERON_HIDDEN void cudnnGetLastErrorString(char* message, size_t max_size) {
  cudnn().cudnnGetLastErrorString(message, max_size);
}

PTERON_HIDDEN cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return cudnn().cudnnGetStream(handle, stream);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                         cudnnBackendDescriptor_t* descriptor) {
  return cudnn().cudnnBackendCreateDescriptor(type, descriptor);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendDestroyDescriptor(descriptor);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return cudnn().cudnnBackendFinalize(descriptor);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type,
                                                     int64_t count, const void* elements) {
  return cudnn().cudnnBackendSetAttribute(descriptor, name, type, count, elements);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type,
                                                     int64_t requested, int64_t* count,
                                                     void* elements) {
  return cudnn().cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
}

PTERON_HIDDEN cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                cudnnBackendDescriptor_t pack) {
  return cudnn().cudnnBackendExecute(handle, plan, pack);
}

}  // extern "C"
