// GEMM through cublasGemmEx and its strided-batched form.
#include "pteron/backends/cuda/runtime/kernels/gemm_types.h"

namespace pteron::cuda {

Error gemm_cublas(const GemmProblem& problem, BlasContext& blas, cudaStream_t) {
  const ColumnMajorGemm g(problem);
  const GemmTypes types = gemm_types(problem.dtype, problem.allow_tf32);
  const Scale alpha(problem.alpha, types.scale);
  const Scale beta(problem.beta, types.scale);
  // With k = 0 the operands are not read, but null pointers are rejected.
  const void* first = problem.k == 0 ? problem.out.data : g.first.data;
  const void* second = problem.k == 0 ? problem.out.data : g.second.data;
  void* out = const_cast<void*>(problem.out.data);
  const auto as_int = [](int64_t size) { return static_cast<int>(size); };
  cublasStatus_t status;
  if (problem.batch == 1) {
    status = blas.api().gemm_ex(
        blas.handle(), g.first_op, g.second_op, as_int(g.rows), as_int(g.cols), as_int(problem.k),
        alpha.get(), first, types.data, as_int(g.first.layout.leading_dimension), second,
        types.data, as_int(g.second.layout.leading_dimension), beta.get(), out, types.data,
        as_int(problem.out.layout.leading_dimension), types.compute, CUBLAS_GEMM_DEFAULT);
  } else {
    status = blas.api().gemm_batched_ex(
        blas.handle(), g.first_op, g.second_op, as_int(g.rows), as_int(g.cols), as_int(problem.k),
        alpha.get(), first, types.data, as_int(g.first.layout.leading_dimension),
        g.first.batch_stride, second, types.data, as_int(g.second.layout.leading_dimension),
        g.second.batch_stride, beta.get(), out, types.data,
        as_int(problem.out.layout.leading_dimension), problem.out.batch_stride,
        as_int(problem.batch), types.compute, CUBLAS_GEMM_DEFAULT);
  }
  if (__builtin_expect(status != CUBLAS_STATUS_SUCCESS, 0)) {
    return blas_error(blas.api(), status, ("cublasGemmEx of " + describe(problem)).c_str());
  }
  return Error::Ok;
}

}  // namespace pteron::cuda
