// Matrix products. `out` has its shape already and may have any strides; everything is checked
// before it is written.

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

// The last two dimensions of a tensor of rank `rank`, starting at its first element.
template <typename T>
Matrix<T> matrix_of(const SlimTensor& tensor) {
  const size_t rank = tensor.dim();
  return {tensor.data_as<T>(), tensor.size(rank - 2), tensor.size(rank - 1),
          tensor.stride(rank - 2), tensor.stride(rank - 1)};
}

Error check_product(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b, size_t rank) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(out, "out"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(a, "the left matrix"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(b, "the right matrix"));
  const auto text = [&] {
    return a->describe() + " @ " + b->describe() + " -> " + out->describe();
  };
  PTERON_CHECK_OR_RETURN(a->dim() == rank && b->dim() == rank && out->dim() == rank,
                         Error::InvalidArgument, "found %s, expected %zu dimensions each",
                         text().c_str(), rank);
  const size_t row = rank - 2, col = rank - 1;
  bool fits = a->size(col) == b->size(row) && out->size(row) == a->size(row) &&
              out->size(col) == b->size(col);
  for (size_t d = 0; d < row; ++d) {
    fits = fits && a->size(d) == b->size(d) && a->size(d) == out->size(d);
  }
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found %s, expected shapes (m, k) @ (k, n) -> (m, n)", text().c_str());
  return Error::Ok;
}

// out = alpha * a @ b + beta * out, for one product or a batch of them.
template <typename T>
void multiply(const SlimTensor& out, const SlimTensor& a, const SlimTensor& b, double beta,
              double alpha) {
  const Matrix<const T> left = matrix_of<const T>(a), right = matrix_of<const T>(b);
  const Matrix<T> product = matrix_of<T>(out);
  if (out.dim() == 2) return gemm<T>(alpha, left, right, beta, product);
  gemm_batch<T>(out.size(0), alpha, left, a.stride(0), right, b.stride(0), beta, product,
                out.stride(0));
}

#define PTERON_DISPATCH_GEMM(dtype, T, ...)                                   \
  switch (dtype) {                                                            \
    PTERON_DISPATCH_CASE_(Float, float, T, __VA_ARGS__)                       \
    PTERON_DISPATCH_CASE_(Double, double, T, __VA_ARGS__)                     \
    PTERON_DISPATCH_CASE_(Half, ::pteron::slim::Half, T, __VA_ARGS__)         \
    PTERON_DISPATCH_CASE_(BFloat16, ::pteron::slim::BFloat16, T, __VA_ARGS__) \
    PTERON_DISPATCH_CASE_(Byte, uint8_t, T, __VA_ARGS__)                      \
    PTERON_DISPATCH_CASE_(Char, int8_t, T, __VA_ARGS__)                       \
    PTERON_DISPATCH_CASE_(Short, int16_t, T, __VA_ARGS__)                     \
    PTERON_DISPATCH_CASE_(Int, int32_t, T, __VA_ARGS__)                       \
    PTERON_DISPATCH_CASE_(Long, int64_t, T, __VA_ARGS__)                      \
    default:                                                                  \
      return PTERON_CPU_NO_DTYPE(out);                                        \
  }

Error matmul(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b, size_t rank) {
  PTERON_RETURN_IF_ERROR(check_product(out, a, b, rank));
  PTERON_CHECK_OR_RETURN(a->dtype() == out->dtype() && b->dtype() == out->dtype(),
                         Error::InvalidType, "found %s @ %s -> %s, expected one dtype",
                         a->describe().c_str(), b->describe().c_str(), out->describe().c_str());
  PTERON_DISPATCH_GEMM(out->dtype(), T, multiply<T>(*out, *a, *b, 0.0, 1.0));
  return Error::Ok;
}

// out = beta * self + alpha * a @ b, with self broadcast to out.
Error add_matmul(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a,
                 AtenTensorHandle b, double beta, double alpha, size_t rank) {
  PTERON_RETURN_IF_ERROR(check_product(out, a, b, rank));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_CHECK_OR_RETURN(
      a->dtype() == out->dtype() && b->dtype() == out->dtype() && self->dtype() == out->dtype(),
      Error::InvalidType, "found %s + %s @ %s -> %s, expected one dtype", self->describe().c_str(),
      a->describe().c_str(), b->describe().c_str(), out->describe().c_str());
  if (beta != 0 && self != out) PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
  PTERON_DISPATCH_GEMM(out->dtype(), T, multiply<T>(*out, *a, *b, beta, alpha));
  return Error::Ok;
}

// int8 @ int8 -> int32.
Error int_matmul(AtenTensorHandle out, AtenTensorHandle a, AtenTensorHandle b) {
  PTERON_RETURN_IF_ERROR(check_product(out, a, b, 2));
  PTERON_CHECK_OR_RETURN(
      a->dtype() == DType::Char && b->dtype() == DType::Char && out->dtype() == DType::Int,
      Error::InvalidType, "found %s @ %s -> %s, expected int8 @ int8 -> int32",
      a->describe().c_str(), b->describe().c_str(), out->describe().c_str());
  gemm_int8(matrix_of<const int8_t>(*a), matrix_of<const int8_t>(*b), matrix_of<int32_t>(*out));
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_mm_out)
(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cpu_mm_out", [&] { return matmul(out, self, mat2, 2); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_bmm_out)
(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cpu_bmm_out", [&] { return matmul(out, self, mat2, 3); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_addmm_out)
(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2,
 double beta, double alpha) {
  return c_boundary("aoti_torch_cpu_addmm_out",
                    [&] { return add_matmul(out, self, mat1, mat2, beta, alpha, 2); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_baddbmm_out)
(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, AtenTensorHandle batch2,
 double beta, double alpha) {
  return c_boundary("aoti_torch_cpu_baddbmm_out",
                    [&] { return add_matmul(out, self, batch1, batch2, beta, alpha, 3); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu__int_mm_out)
(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cpu__int_mm_out", [&] { return int_matmul(out, self, mat2); });
}

}  // namespace pteron::cpu
