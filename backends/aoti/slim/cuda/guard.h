// The calling thread's CUDA device and stream, set for a scope.
//
//   PTERON_ASSIGN_OR_RETURN(CudaStreamGuard guard, CudaStreamGuard::make(stream, device));
//   launch(current_cuda_stream(device));      // == stream
//                                             // device and stream are as before after the scope
//
// Each thread has one current stream per device: the legacy default stream until somebody sets
// another. Streams are borrowed; whoever sets one keeps it alive as long as it is current. Nothing
// here waits for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::slim {

// `device` counts from 0; below 64, or the legacy default stream comes back.
cudaStream_t current_cuda_stream(int device);
// InvalidArgument for a device outside 0..63.
Error set_current_cuda_stream(int device, cudaStream_t stream);

// Makes a device current, and on destruction the one that was current before.
class CudaGuard final {
 public:
  // NotFound for a device that does not exist, or without a driver.
  static Result<CudaGuard> make(int device);
  CudaGuard(CudaGuard&& other) noexcept
      : previous_(std::exchange(other.previous_, kNone)), current_(other.current_) {}
  CudaGuard& operator=(CudaGuard&&) = delete;
  ~CudaGuard();

  // Another device; the one to go back to stays the same.
  Error set_index(int device);

 private:
  static constexpr int kNone = -1;
  CudaGuard(int previous, int current) : previous_(previous), current_(current) {}

  int previous_;
  int current_;
};

// Makes a device and a stream of it current, and on destruction what was current before.
class CudaStreamGuard final {
 public:
  static Result<CudaStreamGuard> make(cudaStream_t stream, int device);
  CudaStreamGuard(CudaStreamGuard&& other) noexcept
      : guard_(std::move(other.guard_)),
        device_(std::exchange(other.device_, -1)),
        previous_(other.previous_) {}
  CudaStreamGuard& operator=(CudaStreamGuard&&) = delete;
  ~CudaStreamGuard();

 private:
  CudaStreamGuard(CudaGuard guard, int device, cudaStream_t previous)
      : guard_(std::move(guard)), device_(device), previous_(previous) {}

  CudaGuard guard_;
  int device_;
  cudaStream_t previous_;
};

}  // namespace pteron::slim
