// GEMM through cuBLAS with a wider output: int8 to int32, float16 or bfloat16 to float32.
//
//   GemmProblem problem;            // as in gemm.h; without batch, c and bias; alpha is 1
//   problem.dtype = ScalarType::Char;
//   PTERON_RETURN_IF_ERROR(gemm_wide(problem, device, stream));
//
// Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// `problem.dtype` is that of the operands; sizes are positive, except that k may be 0 for
// floating-point dtypes. NotSupported for int8 layouts that tensor cores cannot read: rows of a and
// out and columns of b must be contiguous, all sizes multiples of 16, and more than 16 rows.
// `device` must be current.
Error gemm_wide(const GemmProblem& problem, int device, cudaStream_t stream);

}  // namespace pteron::cuda
