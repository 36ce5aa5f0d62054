// GEMV, as in a decoder step; cuBLAS may use split-K with two launches.
//
//   if (is_gemv(problem)) PTERON_RETURN_IF_ERROR(gemv(problem, stream));
//
// One launch. Accumulates in float32 (float64 for float64), in a fixed order. Asynchronous on
// `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// Whether gemv() supports it: m = 1, contiguous columns of b (a transposed weight), rows of a and
// columns of b aligned for 16-byte loads, and sufficient size. Pure.
bool is_gemv(const GemmProblem& problem);

// Requires is_gemv().
Error gemv(const GemmProblem& problem, cudaStream_t stream);

}  // namespace pteron::cuda
