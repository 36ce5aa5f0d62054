// One kernel and one cuBLAS call, both on device memory.

#pragma once

#include <cuda_runtime_api.h>

namespace pteron::cuda_tests {

// x[i] *= factor for i < numel, on the stream; x is device memory. Returns the launch's error.
cudaError_t scale(float* x, int numel, float factor, cudaStream_t stream);

// Sum of x[i] * y[i] for i < numel, by cuBLAS; x and y are device memory. Waits for the result.
// Returns false when cuBLAS reports an error.
bool dot(const float* x, const float* y, int numel, float* result);

}  // namespace pteron::cuda_tests
