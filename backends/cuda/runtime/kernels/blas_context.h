// A cuBLAS handle and workspace per thread and device.
//
//   PTERON_ASSIGN_OR_RETURN(BlasContext* blas, BlasContext::get(device, stream));
//   blas->api().gemm_ex(blas->handle(), ...);
//
// After a thread's first call for a device and stream, get() takes two loads and no lock. The
// context of a thread that ended is reused by a later thread; none is destroyed before the process
// exits. A context is used only by the thread that got it.
//
// The workspace (32 MiB on compute capability 9.0 and above, else 8 MiB) belongs to the method
// running on this thread (blas_workspace.h), otherwise there is one per stream, since kernels of
// two streams must not share it. It is set again after every change of stream, since cuBLAS then
// resets it to its own pool.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pteron/backends/cuda/runtime/platform/cublas.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

class BlasContext final {
 public:
  // This thread's context for `device` (which must be current), set to `stream`. The first call of
  // a thread for a device or stream allocates, so it fails with InvalidState while `stream` is
  // being captured. Call it once before.
  static Result<BlasContext*> get(int device, cudaStream_t stream);

  const Cublas& api() const { return *api_; }
  cublasHandle_t handle() const { return handle_; }
  // The same handle for cublasLt.
  cublasLtHandle_t lt_handle() const { return reinterpret_cast<cublasLtHandle_t>(handle_); }
  void* workspace() const { return workspace_; }
  size_t workspace_nbytes() const { return workspace_nbytes_; }
  int device() const { return device_; }
  // A stream for captures, on which nothing ever runs. Null while the caller's `stream` is being
  // captured, or if it cannot be created.
  cudaStream_t recording_stream(cudaStream_t stream);

 private:
  friend class BlasContexts;
  struct Workspace {
    cudaStream_t stream;
    void* data;
  };

  BlasContext() = default;
  static Result<BlasContext*> make(int device);
  Error use(cudaStream_t stream);
  Result<void*> workspace_for(cudaStream_t stream);

  const Cublas* api_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  int device_ = 0;
  bool has_stream_ = false;
  cudaStream_t stream_ = nullptr;
  uint64_t owner_ = 0;  // id of the BlasWorkspace in use; 0 for one of workspaces_
  void* workspace_ = nullptr;
  size_t workspace_nbytes_ = 0;
  std::vector<Workspace> workspaces_;  // by stream
  cudaStream_t recording_stream_ = nullptr;
};

// A cuBLAS status as an Error, prefixed by `what`.
Error blas_error(const Cublas& api, cublasStatus_t status, const char* what);

}  // namespace pteron::cuda
