#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/matrix_fill.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

enum class Fill { kUpper, kLower, kIdentity };

template <typename T>
__global__ void fill_kernel(T* a, int64_t rows, int64_t count, Fill fill) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; at < count;
       at += step) {
    const int64_t row = at % rows, col = at / rows;
    if (fill == Fill::kIdentity) {
      a[at] = row == col ? T(1) : T(0);
    } else if (fill == Fill::kUpper ? row > col : row < col) {
      a[at] = T(0);
    }
  }
}

template <typename T>
__global__ void determinant_kernel(const T* lu, const int32_t* pivots, int64_t n, T* value,
                                   T* sign_of, T* logarithm_of) {
  T product = 1, sign = 1, logarithm = 0;
  for (int64_t i = 0; i < n; ++i) {
    T element = lu[i * n + i];
    if (pivots[i] != i + 1) element = -element;
    product *= element;
    sign *= element < 0 ? T(-1) : element > 0 ? T(1) : element;
    logarithm += log(abs(element));
  }
  if (value) *value = product;
  if (sign_of) *sign_of = sign;
  if (logarithm_of) *logarithm_of = logarithm;
}

template <typename T>
Error launch(T* a, int64_t rows, int64_t cols, Fill fill, cudaStream_t stream) {
  const int64_t count = rows * cols, blocks = (count + kThreads - 1) / kThreads;
  if (count == 0) return Error::Ok;
  fill_kernel<T><<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), kThreads, 0, stream>>>(
      a, rows, count, fill);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "filling a matrix");
  return Error::Ok;
}

}  // namespace

template <typename T>
Error keep_triangle(T* a, int64_t rows, int64_t cols, bool upper, cudaStream_t stream) {
  return launch(a, rows, cols, upper ? Fill::kUpper : Fill::kLower, stream);
}

template <typename T>
Error make_identity(T* a, int64_t rows, int64_t cols, cudaStream_t stream) {
  return launch(a, rows, cols, Fill::kIdentity, stream);
}

template <typename T>
Error determinant(const T* lu, const int32_t* pivots, int64_t n, T* value, T* sign, T* logarithm,
                  cudaStream_t stream) {
  determinant_kernel<T><<<1, 1, 0, stream>>>(lu, pivots, n, value, sign, logarithm);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "multiplying a diagonal");
  return Error::Ok;
}

#define PTERON_INSTANTIATE(T)                                                \
  template Error keep_triangle<T>(T*, int64_t, int64_t, bool, cudaStream_t); \
  template Error make_identity<T>(T*, int64_t, int64_t, cudaStream_t);       \
  template Error determinant<T>(const T*, const int32_t*, int64_t, T*, T*, T*, cudaStream_t);
PTERON_INSTANTIATE(float)
PTERON_INSTANTIATE(double)

}  // namespace pteron::cuda
