// A cuDNN handle for the calling thread.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/platform/cudnn.h"

namespace pteron::cuda {

struct CudnnHandle {
  const Cudnn* dnn = nullptr;
  cudnnHandle_t handle = nullptr;
  bool has_stream = false;
  cudaStream_t stream = nullptr;
};

// For `device`, which must be current, set to `stream`. Lives as long as the process, since
// destroying it synchronizes; reused by a later thread when this one ends. NotFound without cuDNN.
Result<CudnnHandle*> cudnn_handle_for(int device, cudaStream_t stream);

// `Ok`, NotSupported or AccessFailed, with cuDNN's message for `status`.
Error cudnn_error(const Cudnn& dnn, cudnnStatus_t status, const char* what);

}  // namespace pteron::cuda
