#include <cublas_v2.h>

#include "add.h"

namespace {

__global__ void add_kernel(float* x, const float* y, int numel) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < numel) {
    x[i] += y[i];
  }
}

}  // namespace

cudaError_t add(float* x, const float* y, int numel) {
  add_kernel<<<(numel + 255) / 256, 256>>>(x, y, numel);
  return cudaGetLastError();
}

int cublas_major_version() {
  int version = -1;
  return cublasGetProperty(MAJOR_VERSION, &version) == CUBLAS_STATUS_SUCCESS ? version : -1;
}
