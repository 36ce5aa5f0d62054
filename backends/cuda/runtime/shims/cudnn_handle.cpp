#include "pteron/backends/cuda/runtime/shims/cudnn_handle.h"

#include <map>

#include "pteron/backends/cuda/runtime/kernels/per_thread.h"

namespace pteron::cuda {

Error cudnn_error(const Cudnn& dnn, cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return Error::Ok;
  // Ranges of codes: 3xxx is "not supported".
  const bool unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
  return make_error(unsupported ? Error::NotSupported : Error::AccessFailed, "%s: %s", what,
                    dnn.cudnnGetErrorString(status));
}

Result<CudnnHandle*> cudnn_handle_for(int device, cudaStream_t stream) {
  CudnnHandle& found = per_thread<std::map<int, CudnnHandle>>()[device];
  if (!found.handle) {
    PTERON_ASSIGN_OR_RETURN(found.dnn, Cudnn::get());
    if (const cudnnStatus_t status = found.dnn->cudnnCreate(&found.handle)) {
      return cudnn_error(*found.dnn, status, "creating a cuDNN handle");
    }
  }
  if (!found.has_stream || found.stream != stream) {
    if (const cudnnStatus_t status = found.dnn->cudnnSetStream(found.handle, stream)) {
      return cudnn_error(*found.dnn, status, "setting the stream of cuDNN");
    }
    found.stream = stream;
    found.has_stream = true;
  }
  return &found;
}

}  // namespace pteron::cuda
