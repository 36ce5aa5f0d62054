#include "pteron/backends/aoti/ops/product/product.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// The last two dimensions of a tensor as a matrix.
template <typename T>
Matrix<T> matrix_of(const SlimTensor& tensor) {
  const size_t rank = tensor.dim();
  return {tensor.data_as<T>(), tensor.size(rank - 2), tensor.size(rank - 1),
          tensor.stride(rank - 2), tensor.stride(rank - 1)};
}

template <typename T>
Error multiply(const aoti::ProductCall& call) {
  const SlimTensor &out = call.out, &a = call.a, &b = call.b;
  if (call.c && call.c != &out) PTERON_RETURN_IF_ERROR(slim::copy_tensor(out, *call.c));
  const double beta = call.c ? call.beta : 0;
  const auto left = matrix_of<const T>(a), right = matrix_of<const T>(b);
  if (out.dim() == 2) {
    gemm<T>(call.alpha, left, right, beta, matrix_of<T>(out));
  } else {
    gemm_batch<T>(out.size(0), call.alpha, left, a.stride(0), right, b.stride(0), beta,
                  matrix_of<T>(out), out.stride(0));
  }
  return Error::Ok;
}

// Converts some rows of the weight to float at a time.
template <typename T>
void multiply_int8_weight(const aoti::Int8WeightCall& call) {
  constexpr int64_t kRows = 32, kLeastWork = 1 << 16;
  const int64_t m = call.x.size(0), k = call.x.size(1), n = call.weight.size(0);
  const auto* const weight = call.weight.data_as<const int8_t>();
  const T* const scales = call.scales.data_as<const T>();
  Scratch<float> x(m * k);
  std::copy_n(call.x.data_as<const T>(), m * k, x.data());
  parallel_for(
      (n + kRows - 1) / kRows, kLeastWork / (m * k * kRows + 1), [&](int64_t begin, int64_t end) {
        Scratch<float> rows(kRows * k), sums(m * kRows);
        for (int64_t first = begin * kRows; first < std::min(end * kRows, n); first += kRows) {
          const int64_t count = std::min(kRows, n - first);
          std::copy_n(weight + first * k, count * k, rows.data());
          gemm_serial<float>(1, {x.data(), m, k, k, 1}, {rows.data(), k, count, 1, k}, 0,
                             {sums.data(), m, count, count, 1});
          for (int64_t i = 0; i < m * count; ++i) {
            const int64_t row = i / count, column = first + i % count;
            call.out.data_as<T>()[row * n + column] =
                static_cast<T>(sums[i] * static_cast<float>(scales[column]));
          }
        }
      });
}

}  // namespace

Error product(const aoti::ProductCall& call) {
  if (call.b.dtype() == DType::Char && call.out.dtype() == DType::Int) {
    const auto b = matrix_of<const int8_t>(call.b);
    const auto out = matrix_of<int32_t>(call.out);
    call.a.dtype() == DType::Byte ? gemm_int8(matrix_of<const uint8_t>(call.a), b, out)
                                  : gemm_int8(matrix_of<const int8_t>(call.a), b, out);
    return Error::Ok;
  }
  switch (call.out.dtype()) {
    PTERON_DISPATCH_CASE_(Float, float, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Double, double, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Half, Half, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(BFloat16, BFloat16, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Byte, uint8_t, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Char, int8_t, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Short, int16_t, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Int, int32_t, T, return multiply<T>(call))
    PTERON_DISPATCH_CASE_(Long, int64_t, T, return multiply<T>(call))
    default:
      return aoti::no_kernel_for(call.out);
  }
}

Error int8_weight(const aoti::Int8WeightCall& call) {
  PTERON_DISPATCH_FLOATING(call.out.dtype(), T, multiply_int8_weight<T>(call); return Error::Ok);
  return aoti::no_kernel_for(call.out);
}

}  // namespace pteron::cpu
