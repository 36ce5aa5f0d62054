// The functions of cuDNN 9 (libcudnn.so.9) that convolutions and attention call.
//
//   Result<const Cudnn*> dnn = Cudnn::get();
//   if (!dnn.ok()) convolve_without_it();
//
// Opened at the first call; a machine without cuDNN gets NotFound, at no cost the second time. So
// does a process with PTERON_CUDNN=off in its environment.
// Thread-safe.
#pragma once

#include <cudnn.h>

#include "pteron/runtime/core/result.h"

#define PTERON_CUDNN_FUNCTIONS(FUNCTION)  \
  FUNCTION(cudnnCreate)                   \
  FUNCTION(cudnnDestroy)                  \
  FUNCTION(cudnnSetStream)                \
  FUNCTION(cudnnGetErrorString)           \
  FUNCTION(cudnnGetVersion)               \
  FUNCTION(cudnnGetLastErrorString)       \
  FUNCTION(cudnnGetStream)                \
  FUNCTION(cudnnBackendCreateDescriptor)  \
  FUNCTION(cudnnBackendDestroyDescriptor) \
  FUNCTION(cudnnBackendSetAttribute)      \
  FUNCTION(cudnnBackendGetAttribute)      \
  FUNCTION(cudnnBackendFinalize)          \
  FUNCTION(cudnnBackendExecute)

namespace pteron::cuda {

struct Cudnn {
#define PTERON_DECLARE(name) decltype(&::name) name = nullptr;
  PTERON_CUDNN_FUNCTIONS(PTERON_DECLARE)
#undef PTERON_DECLARE

  // The table lives as long as the process.
  static Result<const Cudnn*> get();
};

}  // namespace pteron::cuda
