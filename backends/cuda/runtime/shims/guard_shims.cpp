// Device and stream guards, the current stream, and raw memory.
#include <cuda_runtime_api.h>

#include <utility>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::c_boundary;
using slim::CudaGuard;
using slim::CudaStreamGuard;

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, create_cuda_guard)(int32_t device_index, CudaGuard** ret_guard) {
  return c_boundary("aoti_torch_create_cuda_guard", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret_guard, "ret_guard"));
    PTERON_ASSIGN_OR_RETURN(CudaGuard guard, CudaGuard::make(device_index));
    *ret_guard = new CudaGuard(std::move(guard));
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, delete_cuda_guard)(CudaGuard* guard) {
  delete guard;
  return aoti::kAotiSuccess;
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_guard_set_index)(CudaGuard* guard, int32_t device_index) {
  return c_boundary("aoti_torch_cuda_guard_set_index", [&]() -> Error {
    PTERON_CHECK_OR_RETURN(guard != nullptr, Error::InvalidArgument, "the guard is null");
    return guard->set_index(device_index);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, create_cuda_stream_guard)(void* stream, int32_t device_index,
                                                           CudaStreamGuard** ret_guard) {
  return c_boundary("aoti_torch_create_cuda_stream_guard", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret_guard, "ret_guard"));
    PTERON_ASSIGN_OR_RETURN(CudaStreamGuard guard,
                            CudaStreamGuard::make(static_cast<cudaStream_t>(stream), device_index));
    *ret_guard = new CudaStreamGuard(std::move(guard));
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, delete_cuda_stream_guard)(CudaStreamGuard* guard) {
  delete guard;
  return aoti::kAotiSuccess;
}

PTERON_AOTI_SHIM(AOTITorchError, get_current_cuda_stream)(int32_t device_index, void** ret_stream) {
  return c_boundary("aoti_torch_get_current_cuda_stream", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret_stream, "ret_stream"));
    *ret_stream = slim::current_cuda_stream(device_index);
    return Error::Ok;
  });
}

// Plain device memory, for constants that live as long as the model.
PTERON_AOTI_SHIM(AOTITorchError, cuda_caching_allocator_raw_alloc)(uint64_t nbytes,
                                                                   void** ret_ptr) {
  return c_boundary("aoti_torch_cuda_caching_allocator_raw_alloc", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret_ptr, "ret_ptr"));
    void* data = nullptr;
    if (nbytes > 0) {
      PTERON_CUDA_RETURN_IF_ERROR(cudaMalloc(&data, nbytes), "allocating device memory");
    }
    *ret_ptr = data;
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_caching_allocator_raw_delete)(void* ptr) {
  return c_boundary("aoti_torch_cuda_caching_allocator_raw_delete", [&]() -> Error {
    PTERON_CUDA_RETURN_IF_ERROR(cudaFree(ptr), "freeing device memory");
    return Error::Ok;
  });
}

}  // namespace pteron::cuda
