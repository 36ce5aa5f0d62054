// Streams of methods, and how a caller runs a method on its own stream.
//
//   // Everything that this thread executes in the block goes to `mine`:
//   PTERON_ASSIGN_OR_RETURN(slim::CudaStreamGuard guard,
//                           slim::CudaStreamGuard::make(mine, device));
//   method->execute();
//
// A method runs on the calling thread's current stream if one is set, otherwise on its own stream,
// which all its delegates share. That is a blocking stream: it and the legacy default stream wait
// for each other, so that work on the default stream (torch's default) is ordered with ours without
// synchronization.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "pteron/backends/cuda/runtime/blas_workspace.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

// Whether `stream` is being captured.
bool is_capturing(cudaStream_t stream);

// Shared by the delegates of one loaded method on one device: a stream and the memory of
// intermediates. Used by one thread at a time.
class MethodStream final {
 public:
  // NotFound for a device that does not exist.
  static Result<std::shared_ptr<MethodStream>> make(int device);
  ~MethodStream();
  MethodStream(const MethodStream&) = delete;
  MethodStream& operator=(const MethodStream&) = delete;

  int device() const { return device_; }
  CachingPool& pool() { return *pool_; }
  // Pool of the graphs of all delegates, which never run concurrently; freed with the last graph.
  std::shared_ptr<CachingPool> graph_pool();
  // The stream for captures; nothing ever runs on it.
  Result<cudaStream_t> capture_stream();
  BlasWorkspace& workspace() { return workspace_; }
  cudaStream_t own() const { return own_; }

  // The stream to use now. If the last work was on another stream, it waits for that, except into
  // or out of a capture, whose graph runs when its owner launches it.
  Result<cudaStream_t> begin();
  // After the work: records an event on a foreign stream, which may be destroyed by the next run.
  void end(cudaStream_t stream) noexcept;
  // Synchronizes all work of the method.
  Error synchronize();
  // Frees cached memory, unless a caller's graph may use it. Call after synchronize().
  void trim();

 private:
  MethodStream(int device, cudaStream_t own, cudaEvent_t event);
  // Makes `stream` wait for the last work.
  Error change_to(cudaStream_t stream);

  const int device_;
  const cudaStream_t own_;
  const cudaEvent_t event_;  // end of the last work on a foreign stream
  cudaStream_t last_;
  bool captured_ = false;      // the last work was captured
  bool was_captured_ = false;  // some work was captured
  CachingPool* const pool_;
  std::weak_ptr<CachingPool> graph_pool_;
  cudaStream_t capture_stream_ = nullptr;
  BlasWorkspace workspace_;
};

}  // namespace pteron::cuda
