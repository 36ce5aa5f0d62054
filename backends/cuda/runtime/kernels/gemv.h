// Products of one row with a matrix, the step of a decoder: too small for cuBLAS, which splits them
// over two launches.
//
//   if (is_gemv(problem)) PTERON_RETURN_IF_ERROR(gemv(problem, stream));
//
// One launch. Each column is the sum of k products in float32 (float64 for float64), always in the
// same order. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// Whether gemv() takes it: m = 1, b with contiguous columns (a transposed weight), rows of a and
// columns of b that can be read 16 bytes at a time, and enough of them. Pure.
bool is_gemv(const GemmProblem& problem);

// Only where is_gemv().
Error gemv(const GemmProblem& problem, cudaStream_t stream);

}  // namespace pteron::cuda
