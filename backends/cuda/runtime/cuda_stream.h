// Streams of methods, and how a caller puts work on a stream of its own.
//
//   // Everything that this thread executes in the block goes to `mine`:
//   PTERON_ASSIGN_OR_RETURN(slim::CudaStreamGuard guard,
//                           slim::CudaStreamGuard::make(mine, device));
//   method->execute();
//
// A method works on the calling thread's current stream where one is set, and otherwise on a stream
// of its own, which all its delegates share. The own one is a blocking stream: it and the legacy
// default stream wait for each other, so that work which others put on the default stream (torch by
// default) is ordered with ours without anybody synchronising.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/kernels/blas_workspace.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

// Whether what is put on `stream` goes into a graph.
bool is_capturing(cudaStream_t stream);

// What the delegates of one loaded method share on one device: a stream and the memory of their
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
  // Of the graphs of all delegates, which never run at once; goes with the last of them.
  std::shared_ptr<CachingPool> graph_pool();
  // Where they are captured; nothing ever runs there.
  Result<cudaStream_t> capture_stream();
  BlasWorkspace& workspace() { return workspace_; }
  cudaStream_t own() const { return own_; }

  // The stream to work on now. Where the last work went to another one, it is made to wait for
  // that; not so into or out of a capture, whose graph runs when its owner says.
  Result<cudaStream_t> begin();
  // After the work: remembers where a foreign stream stood, since it may be gone next time.
  void end(cudaStream_t stream) noexcept;
  // Waits until all work of the method is done.
  Error synchronize();
  // Gives cached memory back, unless a graph of a caller's may use it. After synchronize().
  void trim();

 private:
  MethodStream(int device, cudaStream_t own, cudaEvent_t event);
  // Makes `stream` wait for the last work.
  Error change_to(cudaStream_t stream);

  const int device_;
  const cudaStream_t own_;
  const cudaEvent_t event_;  // where the last work on a foreign stream ended
  cudaStream_t last_;
  bool captured_ = false;      // the last work went into a graph
  bool was_captured_ = false;  // some did
  CachingPool* const pool_;
  std::weak_ptr<CachingPool> graph_pool_;
  cudaStream_t capture_stream_ = nullptr;
  BlasWorkspace workspace_;
};

}  // namespace pteron::cuda
