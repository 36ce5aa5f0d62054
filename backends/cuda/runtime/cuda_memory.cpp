// CUDA memory for the runtime's planned pools, inputs and outputs and for the tensors of compiled
// code, registered for DeviceType::CUDA.
//
// Work is queued on the calling thread's current stream of the device. Storage is an output buffer
// offered by the open ExecutionScope, or comes from its pool, or else from the pool of the current
// stream. A freed output is soon reused.
#include <cuda_runtime_api.h>

#include <memory>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/strided_copy.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::cuda {

// Scratch memory may outlive a run, so it is never an output buffer.
Result<StorageRef> allocate_scratch(size_t nbytes, int device) {
  const ExecutionResources* scope = ExecutionScope::current();
  if (scope && scope->pool && scope->pool->device() == device) return scope->pool->allocate(nbytes);
  const cudaStream_t stream = slim::current_cuda_stream(device);
  return CachingPool::of_stream(device, stream).allocate(nbytes);
}

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

class CudaMemory final : public DeviceAllocator {
 public:
  Result<StorageRef> allocate(size_t nbytes, Device device) override {
    const ExecutionResources* scope = ExecutionScope::current();
    if (scope && scope->output_buffers && scope->pool->device() == device.index) {
      if (StorageRef storage = scope->output_buffers->take(nbytes)) return storage;
      PTERON_ASSIGN_OR_RETURN(StorageRef storage, scope->pool->allocate(nbytes));
      scope->output_buffers->note(storage->data);
      return storage;
    }
    return allocate_scratch(nbytes, device.index);
  }

  void trim(Device device) noexcept override { CachingPool::trim_streams(device.index); }

  Result<StorageRef> allocate_pinned(size_t nbytes) override {
    auto storage = std::make_unique<Storage>();
    PTERON_CUDA_RETURN_IF_ERROR(
        cudaHostAlloc(&storage->data, nbytes > 0 ? nbytes : 1, cudaHostAllocPortable),
        "allocating pinned host memory");
    storage->nbytes = nbytes;
    storage->destroy = [](Storage* self) noexcept {
      (void)cudaFreeHost(self->data);
      delete self;
    };
    return StorageRef(storage.release());
  }

  Error copy(void* destination, Device to, const void* source, Device from, size_t nbytes,
             Wait wait) override {
    const int device = to.type == DeviceType::CUDA ? to.index : from.index;
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
    const cudaStream_t stream = slim::current_cuda_stream(device);
    const cudaError_t status =
        to.type == from.type && to.index != from.index
            ? cudaMemcpyPeerAsync(destination, to.index, source, from.index, nbytes, stream)
            : cudaMemcpyAsync(destination, source, nbytes,
                              to.type == DeviceType::CPU     ? cudaMemcpyDeviceToHost
                              : from.type == DeviceType::CPU ? cudaMemcpyHostToDevice
                                                             : cudaMemcpyDeviceToDevice,
                              stream);
    PTERON_CUDA_RETURN_IF_ERROR(status, "copying memory of a device");
    return wait_for(stream, wait);
  }

  Error copy_strided(void* target, const int64_t* target_strides, const void* source,
                     const int64_t* source_strides, const int64_t* sizes, size_t dim,
                     size_t item_size, Device device) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    StridedCopy copy;
    copy.target = target;
    copy.source = source;
    copy.item_nbytes = item_size;
    for (size_t i = 0; i < dim; ++i) {
      copy.add_dim(sizes[i], target_strides[i], source ? source_strides[i] : 0);
    }
    return strided_copy(copy, slim::current_cuda_stream(device.index));
  }

  Error fill_zero(void* destination, size_t nbytes, Device device, Wait wait) override {
    PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device.index));
    const cudaStream_t stream = slim::current_cuda_stream(device.index);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(destination, 0, nbytes, stream),
                                "zeroing memory of a device");
    return wait_for(stream, wait);
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

 private:
  static Error wait_for(cudaStream_t stream, Wait wait) {
    if (wait == Wait::No) return Error::Ok;
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "waiting for a copy");
    return Error::Ok;
  }
};

[[maybe_unused]] const bool registered =
    register_device_allocator(DeviceType::CUDA, std::make_unique<CudaMemory>()).ok();

}  // namespace
}  // namespace pteron::cuda
