#include "pteron/backends/cuda/runtime/cuda_error.h"

#include <atomic>

namespace pteron::cuda {
namespace {

Error::Code code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return Error::MemoryAllocationFailed;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return Error::NotFound;
    case cudaErrorInvalidValue:
      return Error::InvalidArgument;
    default:
      return Error::AccessFailed;
  }
}

}  // namespace

Error cuda_error(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return Error::Ok;
  (void)cudaGetLastError();
  return make_error(code_of(status), "%s: %s (%s)", what, cudaGetErrorName(status),
                    cudaGetErrorString(status));
}

int device_count() {
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count > 0) return count;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  known.store(count, std::memory_order_relaxed);
  return count;
}

}  // namespace pteron::cuda
