#pragma once

#include <cuda_runtime_api.h>

// x[i] += y[i] for i < numel; both are device memory. Returns the launch's error.
cudaError_t add(float* x, const float* y, int numel);

// The version of cuBLAS, as cublasGetProperty gives its major number; -1 for an error.
int cublas_major_version();
