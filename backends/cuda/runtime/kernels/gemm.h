// Matrix products through cuBLAS, on row-major and column-major operands as they lie in memory.
//
//   GemmProblem problem;
//   problem.dtype = ScalarType::BFloat16;
//   problem.m = 16; problem.n = 8192; problem.k = 2048;
//   problem.a = {x, {2048, false}};          // (m, k), rows contiguous
//   problem.b = {weight, {2048, true}};      // (k, n), columns contiguous: a transposed weight
//   problem.out = {y, {8192, false}};        // (m, n)
//   PTERON_RETURN_IF_ERROR(gemm(problem, device, stream));
//
// out = alpha * a @ b + beta * c, or + bias. For each dtype the products are summed in:
//
//   float16, bfloat16   float32; split-K partial sums may be rounded to the operands' type
//   float32             float32; with allow_tf32 the operands are rounded to TF32 first
//   float64             float64
//
// Asynchronous on `stream`. Sizes and strides in elements. Nothing is written on failure.
// Thread-safe: each thread has its own handle, and no lock is held. With `record`, a call that a
// thread makes for the third time, all addresses and numbers equal, is launched as the second was
// recorded (recorded_launch.h, which says what other threads must not do then).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/backends/cuda/runtime/kernels/matrix_layout.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Which of NVIDIA's two interfaces runs a product.
enum class GemmLibrary {
  kAuto,      // the one that measured faster for the kind of problem; gemv.h for one row
  kCublas,    // cublasGemmEx
  kCublasLt,  // cublasLtMatmul, its choice of algorithm cached by shape
};

struct GemmMatrix {
  const void* data = nullptr;
  MatrixLayout layout{1, false};
  int64_t batch_stride = 0;  // 0 shares one matrix by the whole batch
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
  bool record = false;  // may be recorded, and launched as it was
  GemmLibrary library = GemmLibrary::kAuto;
};

// InvalidType for another dtype; InvalidArgument for sizes beyond what cuBLAS counts (2^31 - 1) or
// a c that is not laid out like out where the library cannot read it; NotFound without cuBLAS.
// `device` must be current. Sizes of zero are allowed: an empty out is left alone, k = 0 gives
// beta * c.
Error gemm(const GemmProblem& problem, int device, cudaStream_t stream);

// Products of one thread that are recorded before it forgets them all; some 2 KB each.
inline constexpr size_t kMaxRecordedProducts = 8192;

// How the products of the calling thread that went to cublasLt were launched.
struct GemmCounts {
  uint64_t asked = 0;     // by the library
  uint64_t recorded = 0;  // as the library had launched the same call before
};
GemmCounts& gemm_counts();

// Whether gemm() takes operands of this type.
bool is_gemm_type(ScalarType dtype);

}  // namespace pteron::cuda
