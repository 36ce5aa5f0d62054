// What the CUDA shims ask of their arguments before they touch the device.
//
//   PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

struct NamedTensor {
  const char* name;
  const slim::SlimTensor* tensor;
};

// A handle that is there, defined, and on a CUDA device. InvalidArgument otherwise.
Error check_tensor(const slim::SlimTensor* tensor, const char* name);

// All of them as check_tensor says, on one device. InvalidArgument names the one that differs.
Error check_tensors(std::initializer_list<NamedTensor> tensors);

// `name` has `dim` dimensions. InvalidArgument otherwise.
Error check_dim(const slim::SlimTensor& tensor, const char* name, size_t dim);

// No two elements share memory, judged by strides of 0; for what is written. InvalidArgument.
Error check_writable(const slim::SlimTensor& tensor, const char* name);

// "self bfloat16[2, 3], mat2 bfloat16[3, 4]", for messages.
std::string describe(std::initializer_list<NamedTensor> tensors);

// Makes the device of `tensor` current for a scope and knows its current stream.
class DeviceScope final {
 public:
  static Result<DeviceScope> make(const slim::SlimTensor& tensor) {
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
