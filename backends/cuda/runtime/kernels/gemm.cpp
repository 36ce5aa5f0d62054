#include "pteron/backends/cuda/runtime/kernels/gemm.h"

#include <cstdio>
#include <limits>
#include <string>

#include "pteron/backends/cuda/runtime/kernels/gemm_types.h"
#include "pteron/backends/cuda/runtime/kernels/gemv.h"

namespace pteron::cuda {
namespace {

Error check(const GemmProblem& p) {
  PTERON_CHECK_OR_RETURN(is_gemm_type(p.dtype), Error::InvalidType,
                         "gemm: found %s, expected float16, bfloat16, float32 or float64",
                         name_of(p.dtype));
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  for (const int64_t size :
       {p.batch, p.m, p.n, p.k, p.a.layout.leading_dimension, p.b.layout.leading_dimension,
        p.c.layout.leading_dimension, p.out.layout.leading_dimension}) {
    PTERON_CHECK_OR_RETURN(size >= 0 && size <= kMax, Error::InvalidArgument,
                           "gemm: size or leading dimension %lld of %s is outside 0..%lld",
                           static_cast<long long>(size), describe(p).c_str(),
                           static_cast<long long>(kMax));
  }
  PTERON_CHECK_OR_RETURN(
      p.beta == 0.0 || p.c.layout.transposed == p.out.layout.transposed, Error::InvalidArgument,
      "gemm: c of %s must have the orientation of out; copy it first", describe(p).c_str());
  PTERON_CHECK_OR_RETURN(
      p.bias == nullptr || (p.batch == 1 && !p.out.layout.transposed), Error::InvalidArgument,
      "gemm: a bias needs batch 1 and a row-major out, found %s", describe(p).c_str());
  return Error::Ok;
}

// Only cublasLt can read c in place or add a bias. It rejects k = 0.
bool use_cublaslt(const GemmProblem& p) {
  if (p.bias != nullptr || (p.beta != 0.0 && p.c.data != p.out.data)) return true;
  if (p.k == 0) return false;
  // The kernels are the same; a cached algorithm costs less host time than cublasGemmEx (H200: 9.2
  // instead of 10.5 us per call, mostly the launch).
  return p.library != GemmLibrary::kCublas;
}

}  // namespace

bool is_gemm_type(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 || dtype == ScalarType::Float ||
         dtype == ScalarType::Double;
}

GemmTypes gemm_types(const GemmProblem& problem) {
  switch (problem.dtype) {
    case ScalarType::Half:
      return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case ScalarType::BFloat16:
      return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case ScalarType::Double:
      return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case ScalarType::Float8_e4m3fn: {
      GemmProblem wide = problem;
      wide.dtype = problem.out_dtype;
      return {CUDA_R_8F_E4M3, gemm_types(wide).data, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    }
    default:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
              problem.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

std::string describe(const GemmProblem& p) {
  char text[160];
  std::snprintf(text, sizeof text, "%s (%lld, %lld) @ (%lld, %lld), batch %lld", name_of(p.dtype),
                static_cast<long long>(p.m), static_cast<long long>(p.k),
                static_cast<long long>(p.k), static_cast<long long>(p.n),
                static_cast<long long>(p.batch));
  return text;
}

Error gemm(const GemmProblem& problem, int device, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(problem));
  if (problem.m == 0 || problem.n == 0 || problem.batch == 0) return Error::Ok;
  if (problem.library == GemmLibrary::kAuto && is_gemv(problem)) return gemv(problem, stream);
  PTERON_ASSIGN_OR_RETURN(BlasContext * blas, BlasContext::get(device, stream));
  if (!use_cublaslt(problem)) return gemm_cublas(problem, *blas);
  Error error = gemm_cublaslt(problem, *blas, stream);
  const bool can_fall_back = problem.library == GemmLibrary::kAuto && problem.bias == nullptr &&
                             (problem.beta == 0.0 || problem.c.data == problem.out.data);
  if (error == Error::NotSupported && can_fall_back) return gemm_cublas(problem, *blas);
  return error;
}

Error gemm_float8(const GemmProblem& problem, int device, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(BlasContext * blas, BlasContext::get(device, stream));
  return gemm_cublaslt(problem, *blas, stream);
}

}  // namespace pteron::cuda
