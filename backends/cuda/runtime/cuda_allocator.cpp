// CUDA memory for the runtime's planned pools and method inputs, registered for DeviceType::CUDA.
//
// Copies go over the calling thread's current stream and are complete on return.
#include <cuda_runtime_api.h>

#include <memory>

#include "backends/aoti/slim/cuda/guard.h"
#include "backends/cuda/runtime/cuda_error.h"
#include "runtime/core/device_allocator.h"

namespace pteron::cuda {
namespace {

class CudaAllocator final : public DeviceAllocator {
 public:
  Result<void*> allocate(size_t nbytes, Device device) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, nbytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      size_t free_nbytes = 0, total_nbytes = 0;
      (void)cudaMemGetInfo(&free_nbytes, &total_nbytes);
      return make_error(Error::MemoryAllocationFailed,
                        "CUDA device %d has no %zu bytes: %zu of %zu are free", device.index,
                        nbytes, free_nbytes, total_nbytes);
    }
    PTERON_CUDA_RETURN_IF_ERROR(status, "allocating device memory");
    return data;
  }

  void free(void* data, Device device) override {
    Result<slim::CudaGuard> guard = slim::CudaGuard::make(device.index);
    if (guard.ok()) (void)cudaFree(data);
  }

  Error copy_from_host(void* destination, const void* source, size_t nbytes,
                       Device device) override {
    return copy(destination, source, nbytes, device, cudaMemcpyHostToDevice);
  }

  Error copy_to_host(void* destination, const void* source, size_t nbytes, Device device) override {
    return copy(destination, source, nbytes, device, cudaMemcpyDeviceToHost);
  }

  Error copy(void* destination, const void* source, size_t nbytes, Device device) override {
    return copy(destination, source, nbytes, device, cudaMemcpyDeviceToDevice);
  }

  Error fill_zero(void* destination, size_t nbytes, Device device) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    const cudaStream_t stream = slim::current_cuda_stream(device.index);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(destination, 0, nbytes, stream),
                                "zeroing device memory");
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "zeroing device memory");
    return Error::Ok;
  }

 private:
  static Error copy(void* destination, const void* source, size_t nbytes, Device device,
                    cudaMemcpyKind kind) {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    const cudaStream_t stream = slim::current_cuda_stream(device.index);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(destination, source, nbytes, kind, stream),
                                "copying device memory");
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "copying device memory");
    return Error::Ok;
  }
};

[[maybe_unused]] const bool registered =
    register_device_allocator(DeviceType::CUDA, std::make_unique<CudaAllocator>()).ok();

}  // namespace
}  // namespace pteron::cuda
