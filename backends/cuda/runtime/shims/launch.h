// Helpers of the operators' kernels.
//
//   PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
//   return kernel(type_of(call.out), call.out.data(), scope.stream());
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// The dtype for kernels.
inline ScalarType type_of(const SlimTensor& tensor) {
  return static_cast<ScalarType>(tensor.dtype());
}

// Makes the device of `tensor` current for a scope; provides its current stream.
class DeviceScope final {
 public:
  static Result<DeviceScope> make(const SlimTensor& tensor) {
    const int device = tensor.device().index;
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
    return DeviceScope(std::move(guard), device);
  }
  int device() const { return device_; }
  cudaStream_t stream() const { return slim::current_cuda_stream(device_); }

 private:
  DeviceScope(slim::CudaGuard guard, int device) : guard_(std::move(guard)), device_(device) {}

  slim::CudaGuard guard_;
  int device_;
};

}  // namespace pteron::cuda
