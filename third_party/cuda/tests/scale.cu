#include <cublas_v2.h>

#include "pteron/third_party/cuda/tests/scale.h"

namespace pteron::cuda_tests {
namespace {

constexpr int kBlockSize = 256;

__global__ void scale_kernel(float* x, int numel, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < numel) {
    x[i] *= factor;
  }
}

}  // namespace

cudaError_t scale(float* x, int numel, float factor, cudaStream_t stream) {
  scale_kernel<<<(numel + kBlockSize - 1) / kBlockSize, kBlockSize, 0, stream>>>(x, numel, factor);
  return cudaGetLastError();
}

bool dot(const float* x, const float* y, int numel, float* result) {
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  const bool ok = cublasSdot(handle, numel, x, 1, y, 1, result) == CUBLAS_STATUS_SUCCESS;
  return cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS && ok;
}

}  // namespace pteron::cuda_tests
