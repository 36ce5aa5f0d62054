// Adds on the GPU where there is one; says so where there is none.

#include <cuda_runtime.h>

#include <cstdio>

#include "add.h"

namespace {

bool adds_on_the_device() {
  const float one = 1;
  float result = 0;
  float* x = nullptr;
  bool ok = cudaMalloc(&x, sizeof(float)) == cudaSuccess;
  ok = ok && cudaMemcpy(x, &one, sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess;
  ok = ok && add(x, x, 1) == cudaSuccess;
  ok = ok && cudaMemcpy(&result, x, sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(x);
  return ok && result == 2;
}

}  // namespace

int main() {
  std::printf("cuBLAS %d\n", cublas_major_version());
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("no CUDA device\n");
    return 0;
  }
  const bool ok = adds_on_the_device();
  std::printf("%s\n", ok ? "added" : "failed");
  return ok ? 0 : 1;
}
