// GEMM through cublasGemmEx and its strided-batched form.
#include <limits>

#include "pteron/backends/cuda/runtime/kernels/gemm_types.h"

namespace pteron::cuda {
namespace {

Error run(const GemmProblem& p, const BlasContext& blas, cudaDataType_t in, cudaDataType_t out_type,
          cublasComputeType_t compute, const void* alpha, const void* beta) {
  const ColumnMajorGemm g(p);
  void* const out = const_cast<void*>(p.out.data);
  // With k = 0 the operands are not read, but null pointers are rejected.
  const void* const first = p.k == 0 ? out : g.first.data;
  const void* const second = p.k == 0 ? out : g.second.data;
  const auto as_int = [](int64_t size) { return static_cast<int>(size); };
  const int first_step = as_int(g.first.layout.leading_dimension);
  const int second_step = as_int(g.second.layout.leading_dimension);
  const int out_step = as_int(p.out.layout.leading_dimension);
  const cublasStatus_t status =
      p.batch == 1 ? blas.api().gemm_ex(blas.handle(), g.first_op, g.second_op, as_int(g.rows),
                                        as_int(g.cols), as_int(p.k), alpha, first, in, first_step,
                                        second, in, second_step, beta, out, out_type, out_step,
                                        compute, CUBLAS_GEMM_DEFAULT)
                   : blas.api().gemm_batched_ex(
                         blas.handle(), g.first_op, g.second_op, as_int(g.rows), as_int(g.cols),
                         as_int(p.k), alpha, first, in, first_step, g.first.batch_stride, second,
                         in, second_step, g.second.batch_stride, beta, out, out_type, out_step,
                         p.out.batch_stride, as_int(p.batch), compute, CUBLAS_GEMM_DEFAULT);
  if (__builtin_expect(status == CUBLAS_STATUS_SUCCESS, 1)) return Error::Ok;
  return blas_error(blas.api(), status, ("cublasGemmEx of " + describe(p)).c_str());
}

bool is_in_sixteens(const GemmMatrix& matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
         matrix.layout.leading_dimension % 16 == 0;
}

bool is_for_tensor_cores(const GemmProblem& p) {
  return p.m > 16 && p.k > 0 && p.k % 16 == 0 && p.n % 16 == 0 && !p.a.layout.transposed &&
         p.b.layout.transposed && !p.out.layout.transposed && is_in_sixteens(p.a) &&
         is_in_sixteens(p.b) && is_in_sixteens(p.out);
}

}  // namespace

Error gemm_cublas(const GemmProblem& problem, BlasContext& blas) {
  const GemmTypes types = gemm_types(problem);
  const Scale alpha(problem.alpha, types.scale), beta(problem.beta, types.scale);
  return run(problem, blas, types.data, types.data, types.compute, alpha.get(), beta.get());
}

Error gemm_wide(const GemmProblem& p, int device, cudaStream_t stream) {
  const bool integers = p.dtype == ScalarType::Char;
  PTERON_CHECK_OR_RETURN(!integers || is_for_tensor_cores(p), Error::NotSupported,
                         "%s is not laid out for tensor cores", describe(p).c_str());
  for (const int64_t size : {p.m, p.n, p.k, p.a.layout.leading_dimension,
                             p.b.layout.leading_dimension, p.out.layout.leading_dimension}) {
    PTERON_CHECK_OR_RETURN(size <= std::numeric_limits<int>::max(), Error::InvalidArgument,
                           "%s is larger than cuBLAS counts", describe(p).c_str());
  }
  PTERON_ASSIGN_OR_RETURN(BlasContext * blas, BlasContext::get(device, stream));
  if (integers) {
    const int32_t one = 1, zero = 0;
    return run(p, *blas, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, &one, &zero);
  }
  const float one = 1, zero = 0;
  return run(p, *blas, p.dtype == ScalarType::Half ? CUDA_R_16F : CUDA_R_16BF, CUDA_R_32F,
             CUBLAS_COMPUTE_32F, &one, &zero);
}

}  // namespace pteron::cuda
