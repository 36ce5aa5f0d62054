// Scoped guards for the calling thread's CUDA device and stream.
//
//   PTERON_ASSIGN_OR_RETURN(CudaStreamGuard guard, CudaStreamGuard::make(stream, device));
//   launch(current_cuda_stream(device));      // == stream
//                                             // device and stream are as before after the scope
//
// Each thread has one current stream per device, initially the legacy default stream. Streams are
// borrowed: the caller keeps a stream alive while it is current. Nothing here synchronizes the
// device.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::slim {

// `device` is 0 to 63; otherwise the legacy default stream is returned.
cudaStream_t current_cuda_stream(int device);
// InvalidArgument for a device outside 0..63.
Error set_current_cuda_stream(int device, cudaStream_t stream);

// Makes a device current; restores the previous one on destruction.
class CudaGuard final {
 public:
  // NotFound for a device that does not exist, or without a driver.
  static Result<CudaGuard> make(int device);
  CudaGuard(CudaGuard&& other) noexcept
      : previous_(std::exchange(other.previous_, kNone)), current_(other.current_) {}
  CudaGuard& operator=(CudaGuard&&) = delete;
  ~CudaGuard();

  // Switches to another device; the device to restore is unchanged.
  Error set_index(int device);

 private:
  static constexpr int kNone = -1;
  CudaGuard(int previous, int current) : previous_(previous), current_(current) {}

  int previous_;
  int current_;
};

// Makes a device and one of its streams current; restores the previous ones on destruction.
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
