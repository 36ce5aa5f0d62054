#include "pteron/backends/aoti/slim/cuda/guard.h"

namespace pteron::slim {
namespace {

constexpr int kMaxDevices = 64;

// Constant-initialized, so that reading it needs no guard check.
thread_local cudaStream_t current_streams[kMaxDevices] = {};

Error device_error(int device, cudaError_t status) {
  (void)cudaGetLastError();
  return make_error(Error::NotFound, "CUDA device %d cannot be used: %s", device,
                    cudaGetErrorString(status));
}

}  // namespace

cudaStream_t current_cuda_stream(int device) {
  if (device < 0 || device >= kMaxDevices) return nullptr;
  return current_streams[device];
}

Error set_current_cuda_stream(int device, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(device >= 0 && device < kMaxDevices, Error::InvalidArgument,
                         "CUDA device %d is outside 0..%d", device, kMaxDevices - 1);
  current_streams[device] = stream;
  return Error::Ok;
}

Result<CudaGuard> CudaGuard::make(int device) {
  int previous = 0;
  if (cudaError_t status = cudaGetDevice(&previous); status != cudaSuccess) {
    return device_error(device, status);
  }
  if (device != previous) {
    if (cudaError_t status = cudaSetDevice(device); status != cudaSuccess) {
      return device_error(device, status);
    }
  }
  return CudaGuard(previous, device);
}

Error CudaGuard::set_index(int device) {
  if (device == current_) return Error::Ok;
  if (cudaError_t status = cudaSetDevice(device); status != cudaSuccess) {
    return device_error(device, status);
  }
  current_ = device;
  return Error::Ok;
}

CudaGuard::~CudaGuard() {
  if (previous_ != kNone && previous_ != current_) (void)cudaSetDevice(previous_);
}

Result<CudaStreamGuard> CudaStreamGuard::make(cudaStream_t stream, int device) {
  PTERON_CHECK_OR_RETURN(device >= 0 && device < kMaxDevices, Error::InvalidArgument,
                         "CUDA device %d is outside 0..%d", device, kMaxDevices - 1);
  PTERON_ASSIGN_OR_RETURN(CudaGuard guard, CudaGuard::make(device));
  const cudaStream_t previous = current_streams[device];
  current_streams[device] = stream;
  return CudaStreamGuard(std::move(guard), device, previous);
}

CudaStreamGuard::~CudaStreamGuard() {
  if (device_ >= 0) current_streams[device_] = previous_;
}

}  // namespace pteron::slim
