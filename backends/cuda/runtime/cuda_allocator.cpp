// CUDA memory for the runtime's planned pools, method inputs and outputs, registered for
// DeviceType::CUDA.
//
// Memory comes from the pool of the calling thread's current stream and goes back to it: an output
// that is let go of is soon the memory of another. Copies go over the current stream.
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::cuda {
namespace {

class CudaEvent final : public DeviceEvent {
 public:
  CudaEvent(cudaEvent_t event, int device) : event_(event), device_(device) {}
  ~CudaEvent() override { (void)cudaEventDestroy(event_); }

  Error record() override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventRecord(event_, slim::current_cuda_stream(device_)),
                                "recording an event");
    return Error::Ok;
  }

  Error make_wait(void* stream) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event_, 0),
                                "making a stream wait");
    return Error::Ok;
  }

 private:
  const cudaEvent_t event_;
  const int device_;
};

class CudaAllocator final : public DeviceAllocator {
 public:
  Result<void*> allocate(size_t nbytes, Device device) override {
    const cudaStream_t stream = slim::current_cuda_stream(device.index);
    PTERON_ASSIGN_OR_RETURN(slim::StorageRef storage,
                            CachingPool::of_stream(device.index, stream).allocate(nbytes));
    void* data = storage->data;
    std::lock_guard<std::mutex> lock(mutex_);
    storages_.emplace(data, std::move(storage));
    return data;
  }

  void free(void* data, Device) override {
    slim::StorageRef storage;
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = storages_.find(data);
    if (found == storages_.end()) return;
    storage = std::move(found->second);
    storages_.erase(found);
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

  Error copy_in_order(void* destination, const void* source, size_t nbytes,
                      Device device) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    PTERON_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(destination, source, nbytes, cudaMemcpyDeviceToDevice,
                        slim::current_cuda_stream(device.index)),
        "copying device memory");
    return Error::Ok;
  }

  Result<void*> set_stream(void* stream, Device device) override {
    void* const before = slim::current_cuda_stream(device.index);
    PTERON_RETURN_IF_ERROR(
        slim::set_current_cuda_stream(device.index, static_cast<cudaStream_t>(stream)));
    return before;
  }

  Result<std::unique_ptr<DeviceEvent>> make_event(Device device) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    cudaEvent_t event = nullptr;
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                "creating an event");
    return std::unique_ptr<DeviceEvent>(new CudaEvent(event, device.index));
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

  std::mutex mutex_;
  std::unordered_map<void*, slim::StorageRef> storages_;
};

[[maybe_unused]] const bool registered =
    register_device_allocator(DeviceType::CUDA, std::make_unique<CudaAllocator>()).ok();

}  // namespace
}  // namespace pteron::cuda
