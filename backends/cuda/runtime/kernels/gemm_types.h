// A GemmProblem in cuBLAS' terms, shared by its two interfaces. Internal to the GEMM layer.
#pragma once

#include "pteron/backends/cuda/runtime/kernels/blas_context.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"

namespace pteron::cuda {

// cuBLAS is column-major: a row-major out is the transpose, so its operands are swapped; a
// column-major out is computed directly.
struct ColumnMajorGemm {
  const GemmMatrix& first;
  const GemmMatrix& second;
  cublasOperation_t first_op;
  cublasOperation_t second_op;
  int64_t rows;
  int64_t cols;

  explicit ColumnMajorGemm(const GemmProblem& p)
      : first(p.out.layout.transposed ? p.a : p.b),
        second(p.out.layout.transposed ? p.b : p.a),
        first_op(op(first, p)),
        second_op(op(second, p)),
        rows(p.out.layout.transposed ? p.m : p.n),
        cols(p.out.layout.transposed ? p.n : p.m) {}

 private:
  static cublasOperation_t op(const GemmMatrix& matrix, const GemmProblem& p) {
    return matrix.layout.transposed != p.out.layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
};

struct GemmTypes {
  cudaDataType_t data;
  cudaDataType_t out;
  cudaDataType_t scale;  // type of alpha and beta
  cublasComputeType_t compute;
};

// Only for is_gemm_type(problem.dtype) and float8_e4m3fn.
GemmTypes gemm_types(const GemmProblem& problem);

// alpha or beta in the type that cuBLAS reads it in.
class Scale final {
 public:
  Scale(double value, cudaDataType_t type)
      : double_(value), float_(static_cast<float>(value)), is_double_(type == CUDA_R_64F) {}
  const void* get() const {
    return is_double_ ? static_cast<const void*>(&double_) : static_cast<const void*>(&float_);
  }

 private:
  double double_;
  float float_;
  bool is_double_;
};

// "bfloat16 (16, 2048) @ (2048, 8192), batch 1", for messages.
std::string describe(const GemmProblem& problem);

// The two implementations. NotSupported if the library has no algorithm.
Error gemm_cublas(const GemmProblem& problem, BlasContext& blas);
Error gemm_cublaslt(const GemmProblem& problem, BlasContext& blas, cudaStream_t stream);

}  // namespace pteron::cuda
