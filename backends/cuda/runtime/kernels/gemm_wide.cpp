#include "pteron/backends/cuda/runtime/kernels/gemm_wide.h"

#include <limits>

#include "pteron/backends/cuda/runtime/kernels/gemm_types.h"

namespace pteron::cuda {
namespace {

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
  const ColumnMajorGemm g(p);
  const cudaDataType_t in = integers                      ? CUDA_R_8I
                            : p.dtype == ScalarType::Half ? CUDA_R_16F
                                                          : CUDA_R_16BF;
  const int32_t integer_one = 1, integer_zero = 0;
  const float one = 1, zero = 0;
  const auto scale = [&](const int32_t& integer, const float& number) {
    return integers ? static_cast<const void*>(&integer) : static_cast<const void*>(&number);
  };
  void* const out = const_cast<void*>(p.out.data);
  // With k = 0 the operands are not read, but null pointers are rejected.
  const void* const first = p.k == 0 ? out : g.first.data;
  const void* const second = p.k == 0 ? out : g.second.data;
  const auto as_int = [](int64_t size) { return static_cast<int>(size); };
  const cublasStatus_t status = blas->api().gemm_ex(
      blas->handle(), g.first_op, g.second_op, as_int(g.rows), as_int(g.cols), as_int(p.k),
      scale(integer_one, one), first, in, as_int(g.first.layout.leading_dimension), second, in,
      as_int(g.second.layout.leading_dimension), scale(integer_zero, zero), out,
      integers ? CUDA_R_32I : CUDA_R_32F, as_int(p.out.layout.leading_dimension),
      integers ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return Error::Ok;
  return blas_error(blas->api(), status, ("cublasGemmEx of " + describe(p)).c_str());
}

}  // namespace pteron::cuda
