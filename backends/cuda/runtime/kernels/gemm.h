// GEMM through cuBLAS on row-major and column-major operands without copies.
//
//   GemmProblem problem;
//   problem.dtype = ScalarType::BFloat16;
//   problem.m = 16; problem.n = 8192; problem.k = 2048;
//   problem.a = {x, {2048, false}};          // (m, k), rows contiguous
//   problem.b = {weight, {2048, true}};      // (k, n), columns contiguous: a transposed weight
//   problem.out = {y, {8192, false}};        // (m, n)
//   PTERON_RETURN_IF_ERROR(gemm(problem, device, stream));
//
// out = alpha * a @ b + beta * c, or + bias. Accumulation type:
//
//   float16, bfloat16   float32; split-K partial sums may be rounded to the operands' type
//   float32             float32; with allow_tf32 the operands are rounded to TF32 first
//   float64             float64
//
// Asynchronous on `stream`. Sizes and strides in elements. Nothing is written on failure.
// Thread-safe: each thread has its own handle, and no lock is held. With `record`, a call that a
// thread makes for the third time, with equal addresses and scalars, is launched from a recording
// of the second (recorded_launch.h, with its constraints on other threads).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/backends/cuda/runtime/kernels/matrix_layout.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Which of the two cuBLAS APIs runs a GEMM.
enum class GemmLibrary {
  kAuto,      // the faster one by measurement; gemv.h for one row
  kCublas,    // cublasGemmEx
  kCublasLt,  // cublasLtMatmul, with the algorithm cached by shape
};

struct GemmMatrix {
  const void* data = nullptr;
  MatrixLayout layout{1, false};
  int64_t batch_stride = 0;  // 0: the batch shares one matrix
};

struct GemmProblem {
  ScalarType dtype = ScalarType::Float;  // of all operands
  int64_t batch = 1, m = 0, n = 0, k = 0;
  GemmMatrix a;    // (m, k)
  GemmMatrix b;    // (k, n)
  GemmMatrix c;    // (m, n), read if beta != 0; may be `out`; same transposition as `out`
  GemmMatrix out;  // (m, n), written
  const void* bias =
      nullptr;  // n elements added to every row; needs batch 1, a row-major out, kCublasLt
  double alpha = 1.0;
  double beta = 0.0;
  bool allow_tf32 = false;
  bool record = false;  // allows recording
  GemmLibrary library = GemmLibrary::kAuto;
  // Of gemm_float8: the dtype of out and bias, and float32 scales on the device, one for a and one
  // for b, or with `scale_each` one for each row of a and each column of b.
  ScalarType out_dtype = ScalarType::BFloat16;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  bool scale_each = false;
  bool fast_accumulation = false;  // tensor cores keep sums in fewer bits than float32
};

// InvalidType for another dtype; InvalidArgument for sizes above 2^31 - 1, or a c whose layout
// differs from out's where cuBLAS cannot read it; NotFound without cuBLAS. `device` must be
// current. Sizes of zero are allowed: an empty out is not touched, k = 0 gives beta * c.
Error gemm(const GemmProblem& problem, int device, cudaStream_t stream);

// The same with a wider output: int8 to int32, float16 or bfloat16 to float32; without batch, c and
// bias, alpha is 1. Sizes are positive, except that k may be 0 for floating-point dtypes.
// NotSupported for int8 layouts that tensor cores cannot read: rows of a and out and columns of b
// must be contiguous, all sizes multiples of 16, and more than 16 rows.
Error gemm_wide(const GemmProblem& problem, int device, cudaStream_t stream);

// The same for float8_e4m3fn: out = (a_scale * a) @ (b_scale * b) + bias, with out float16, bfloat16
// or float32; without batch and c, alpha is 1. Rows of a and columns of b are contiguous, k and n
// multiples of 16. NotSupported where the GPU or its cuBLAS cannot: float8 needs sm_89, scales of
// rows and columns sm_90 and cuBLAS 12.9.
Error gemm_float8(const GemmProblem& problem, int device, cudaStream_t stream);

// Maximum recordings per thread before all are dropped; about 2 KB each.
inline constexpr size_t kMaxRecordedProducts = 8192;

// Counts how cublasLt calls of the calling thread were launched.
struct GemmCounts {
  uint64_t asked = 0;     // by cublasLt
  uint64_t recorded = 0;  // from a recording
};
GemmCounts& gemm_counts();

// Whether gemm() supports this dtype.
bool is_gemm_type(ScalarType dtype);

}  // namespace pteron::cuda
