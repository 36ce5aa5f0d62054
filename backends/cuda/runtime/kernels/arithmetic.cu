#include <type_traits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/arithmetic.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Number {
  T re, im;
};

template <typename T>
__device__ Number<T> load(const Operand& operand, int64_t at) {
  if (!operand.is_complex) return {load_as<T>(operand.data, operand.dtype, at), T{0}};
  return {load_as<T>(operand.data, operand.dtype, 2 * at),
          load_as<T>(operand.data, operand.dtype, 2 * at + 1)};
}

template <typename T>
__device__ void store(const Operand& operand, int64_t at, Number<T> value) {
  if (!operand.is_complex) return store_as<T>(operand.data, operand.dtype, at, value.re);
  store_as<T>(operand.data, operand.dtype, 2 * at, value.re);
  store_as<T>(operand.data, operand.dtype, 2 * at + 1, value.im);
}

__device__ uint64_t power(uint64_t base, int64_t exponent) {
  if (exponent < 0) {
    const auto value = static_cast<int64_t>(base);
    if (value != 1 && value != -1) return 0;
    return exponent % 2 == 0 ? 1 : base;
  }
  uint64_t result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

template <typename T>
__device__ Number<T> power(Number<T> a, Number<T> b, bool is_complex) {
  if (!is_complex) return {pow(a.re, b.re), T{0}};
  if (a.re == 0 && a.im == 0) return {b.re == 0 && b.im == 0 ? T{1} : T{0}, T{0}};
  const T log_length = log(hypot(a.re, a.im)), angle = atan2(a.im, a.re);
  const T length = exp(b.re * log_length - b.im * angle);
  const T turned = b.re * angle + b.im * log_length;
  return {length * cos(turned), length * sin(turned)};
}

template <typename T>
__device__ Number<T> result_of(const Arithmetic& c, Number<T> a, Number<T> b) {
  if constexpr (std::is_integral_v<T>) {
    const auto alpha = static_cast<T>(static_cast<int64_t>(c.alpha));
    switch (c.kind) {
      case ArithmeticKind::kAdd:
        return {a.re + alpha * b.re, 0};
      case ArithmeticKind::kMultiply:
        return {a.re * b.re, 0};
      case ArithmeticKind::kPower:
        return {power(a.re, static_cast<int64_t>(b.re)), 0};
      default:
        return {static_cast<int64_t>(a.re) < 0 ? 0 - a.re : a.re, 0};
    }
  } else {
    const T alpha = static_cast<T>(c.alpha);
    switch (c.kind) {
      case ArithmeticKind::kAdd:
        return {a.re + alpha * b.re, a.im + alpha * b.im};
      case ArithmeticKind::kMultiply:
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
      case ArithmeticKind::kPower:
        return power(a, b, c.out.is_complex);
      case ArithmeticKind::kPolar:
        return {a.re * cos(b.re), a.re * sin(b.re)};
      default:
        return {c.a.is_complex ? hypot(a.re, a.im) : fabs(a.re), T{0}};
    }
  }
}

template <typename T>
__global__ void arithmetic_kernel(__grid_constant__ const Arithmetic c) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < c.count;
       i += step) {
    int64_t rest = i, a = 0, b = 0, out = 0;
    for (int d = c.dims; d-- > 0;) {
      const int64_t at = rest % c.sizes[d];
      rest /= c.sizes[d];
      a += at * c.a.strides[d];
      b += at * c.b.strides[d];
      out += at * c.out.strides[d];
    }
    store<T>(c.out, out, result_of<T>(c, load<T>(c.a, a), load<T>(c.b, b)));
  }
}

bool is_float8(const Operand& operand) {
  return operand.dtype == ScalarType::Float8_e5m2 || operand.dtype == ScalarType::Float8_e4m3fn;
}

}  // namespace

Error compute(const Arithmetic& c, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(!is_float8(c.a) && !is_float8(c.b), Error::InvalidType,
                         "arithmetic: found %s and %s, expected other types", name_of(c.a.dtype),
                         name_of(c.b.dtype));
  if (c.count == 0) return Error::Ok;
  const int64_t needed = (c.count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(needed < 65536 ? needed : 65536);
  if (!is_floating(c.out.dtype)) {
    // Unsigned, so that it wraps.
    arithmetic_kernel<uint64_t><<<blocks, kThreads, 0, stream>>>(c);
  } else if (c.out.dtype == ScalarType::Double) {
    arithmetic_kernel<double><<<blocks, kThreads, 0, stream>>>(c);
  } else {
    arithmetic_kernel<float><<<blocks, kThreads, 0, stream>>>(c);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "computing elements");
  return Error::Ok;
}

}  // namespace pteron::cuda
