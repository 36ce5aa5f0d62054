// Matrix products through cuBLAS whose results are wider than the operands: int32 of int8, float32
// of float16 or bfloat16.
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

// `problem.dtype` is that of the operands; sizes are positive, but that k may be 0 of floating-point
// numbers. NotSupported for int8 that lies otherwise than tensor cores read it: rows of a and out
// and columns of b contiguous, all in sixteens, and more than 16 rows. `device` must be current.
Error gemm_wide(const GemmProblem& problem, int device, cudaStream_t stream);

}  // namespace pteron::cuda
