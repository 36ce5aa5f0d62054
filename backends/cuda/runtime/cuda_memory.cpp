#include "pteron/backends/cuda/runtime/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <memory>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/output_buffer_reuse.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

using slim::SlimTensor;
using slim::StorageRef;
using slim::TensorPtr;

// Whether both lie in memory in the same order without gaps, so that bytes can be copied.
bool is_one_run(const SlimTensor& target, const SlimTensor& source) {
  if (target.is_contiguous() && source.is_contiguous()) return true;
  for (size_t i = 0; i < target.dim(); ++i) {
    if (target.size(i) != 1 && target.stride(i) != source.stride(i)) return false;
  }
  Result<size_t> reach = slim::storage_nbytes(target.sizes(), target.strides(), target.dtype());
  return reach.ok() && *reach == target.nbytes();
}

Result<TensorPtr> contiguous_like(const SlimTensor& tensor, Device device) {
  int64_t strides[slim::kMaxDims];
  slim::contiguous_strides(tensor.sizes(), strides);
  return slim::make_tensor(tensor.sizes(), Span<const int64_t>(strides, tensor.dim()),
                           tensor.dtype(), device);
}

Error copy_on_device(const SlimTensor& target, const SlimTensor& source, cudaStream_t stream) {
  if (is_one_run(target, source)) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(target.data(), source.data(), target.nbytes(),
                                                cudaMemcpyDeviceToDevice, stream),
                                "copying a tensor");
    return Error::Ok;
  }
  return strided_copy(elementwise_copy(target, &source), stream);
}

Error copy_to_host(const SlimTensor& target, const SlimTensor& source, bool non_blocking,
                   cudaStream_t stream) {
  if (is_one_run(target, source)) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(target.data(), source.data(), target.nbytes(),
                                                cudaMemcpyDeviceToHost, stream),
                                "copying a tensor to the host");
    if (non_blocking) return Error::Ok;
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "copying a tensor to the host");
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr packed, contiguous_like(source, source.device()));
  PTERON_ASSIGN_OR_RETURN(TensorPtr staged, contiguous_like(source, Device{}));
  PTERON_RETURN_IF_ERROR(copy_on_device(*packed, source, stream));
  PTERON_RETURN_IF_ERROR(copy_to_host(*staged, *packed, false, stream));
  return slim::copy_tensor(target, *staged);
}

Error copy_from_host(const SlimTensor& target, const SlimTensor& source, bool non_blocking,
                     cudaStream_t stream) {
  if (is_one_run(target, source)) {
    // From pageable memory the call returns when the source has been read, from pinned memory
    // before.
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(target.data(), source.data(), target.nbytes(),
                                                cudaMemcpyHostToDevice, stream),
                                "copying a tensor from the host");
    if (non_blocking) return Error::Ok;
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream), "copying a tensor from the host");
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr staged, contiguous_like(source, Device{}));
  PTERON_ASSIGN_OR_RETURN(TensorPtr packed, contiguous_like(source, target.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*staged, source));
  PTERON_RETURN_IF_ERROR(copy_from_host(*packed, *staged, false, stream));
  return copy_on_device(target, *packed, stream);
}

void free_pinned(slim::Storage* storage) noexcept {
  (void)cudaFreeHost(storage->data);
  delete storage;
}

}  // namespace

StridedCopy elementwise_copy(const SlimTensor& target, const SlimTensor* source) {
  StridedCopy copy;
  copy.target = target.data();
  copy.source = source ? source->data() : nullptr;
  copy.item_nbytes = target.item_size();
  for (size_t i = 0; i < target.dim(); ++i) {
    copy.add_dim(target.size(i), target.stride(i), source ? source->stride(i) : 0);
  }
  return copy;
}

// Scratch memory may be kept beyond a run, so it is never an output buffer.
Result<StorageRef> allocate_scratch(size_t nbytes, int device) {
  const ExecutionResources* scope = ExecutionScope::current();
  if (scope && scope->pool && scope->pool->device() == device) return scope->pool->allocate(nbytes);
  const cudaStream_t stream = slim::current_cuda_stream(device);
  return CachingPool::of_stream(device, stream).allocate(nbytes);
}

Result<StorageRef> CudaMemory::allocate(size_t nbytes, Device device) {
  const ExecutionResources* scope = ExecutionScope::current();
  if (scope && scope->output_buffers && scope->pool->device() == device.index) {
    if (StorageRef storage = scope->output_buffers->take(nbytes)) return storage;
    PTERON_ASSIGN_OR_RETURN(StorageRef storage, scope->pool->allocate(nbytes));
    scope->output_buffers->note(storage->data);
    return storage;
  }
  return allocate_scratch(nbytes, device.index);
}

Result<StorageRef> CudaMemory::allocate_pinned(size_t nbytes) {
  auto storage = std::make_unique<slim::Storage>();
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaHostAlloc(&storage->data, nbytes > 0 ? nbytes : 1, cudaHostAllocPortable),
      "allocating pinned host memory");
  storage->nbytes = nbytes;
  storage->destroy = &free_pinned;
  return StorageRef(storage.release());
}

Error CudaMemory::copy(const SlimTensor& target, const SlimTensor& source, bool non_blocking) {
  if (target.numel() == 0) return Error::Ok;
  const Device to = target.device(), from = source.device();
  const int device = to.type == DeviceType::CUDA ? to.index : from.index;
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
  const cudaStream_t stream = slim::current_cuda_stream(device);
  if (to.type == DeviceType::CPU) return copy_to_host(target, source, non_blocking, stream);
  if (from.type == DeviceType::CPU) return copy_from_host(target, source, non_blocking, stream);
  if (to == from) return copy_on_device(target, source, stream);
  PTERON_CHECK_OR_RETURN(is_one_run(target, source), Error::NotSupported,
                         "copying from cuda:%d %s to cuda:%d %s: make both contiguous first",
                         from.index, source.describe().c_str(), to.index,
                         target.describe().c_str());
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyPeerAsync(target.data(), to.index, source.data(),
                                                  from.index, target.nbytes(), stream),
                              "copying a tensor between devices");
  return Error::Ok;
}

Error CudaMemory::zero(const SlimTensor& tensor) {
  if (tensor.numel() == 0) return Error::Ok;
  const int device = tensor.device().index;
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
  const cudaStream_t stream = slim::current_cuda_stream(device);
  if (is_one_run(tensor, tensor)) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(tensor.data(), 0, tensor.nbytes(), stream),
                                "zeroing a tensor");
    return Error::Ok;
  }
  return strided_copy(elementwise_copy(tensor, nullptr), stream);
}

CudaMemory& cuda_memory() {
  static auto* memory = new CudaMemory();
  return *memory;
}

namespace {

[[maybe_unused]] const bool registered =
    (slim::register_device_memory(DeviceType::CUDA, &cuda_memory()), true);

}  // namespace
}  // namespace pteron::cuda
