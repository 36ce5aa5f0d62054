// Rejects work that a graph replay would not repeat correctly.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda {

// InvalidState while `stream` is being captured into a graph: "`what`: `why`, so ...".
inline Error refuse_during_capture(const char* what, const char* why, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(stream, &status), "asking for stream capture");
  PTERON_CHECK_OR_RETURN(status == cudaStreamCaptureStatusNone, Error::InvalidState,
                         "%s: %s, so the stream cannot be captured into a graph", what, why);
  return Error::Ok;
}

}  // namespace pteron::cuda
