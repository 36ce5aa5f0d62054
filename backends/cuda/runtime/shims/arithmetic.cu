#include <algorithm>
#include <cstring>
#include <type_traits>

#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"
#include "pteron/backends/aoti/ops/promotion.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

using Kind = aoti::ArithmeticCall::Kind;

struct Operand {
  Numbers numbers;  // the parts of complex numbers
  bool is_complex;
  int64_t strides[slim::kMaxDims];
};

// Kernel arguments.
struct Arithmetic {
  Kind kind;
  double alpha;
  Operand a, b, out;
  int dims;
  int64_t sizes[slim::kMaxDims];
  int64_t count;
};

template <typename T>
struct Number {
  T re, im;
};

template <typename T>
__device__ Number<T> load(const Operand& operand, int64_t at) {
  const Numbers& x = operand.numbers;
  if (!operand.is_complex) return {x.load<T>(at), T{0}};
  return {x.load<T>(2 * at), x.load<T>(2 * at + 1)};
}

template <typename T>
__device__ void store(const Operand& operand, int64_t at, Number<T> value) {
  const Numbers& x = operand.numbers;
  if (!operand.is_complex) return x.store(at, value.re);
  x.store(2 * at, value.re);
  x.store(2 * at + 1, value.im);
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
      case Kind::kAdd:
        return {a.re + alpha * b.re, 0};
      case Kind::kMultiply:
        return {a.re * b.re, 0};
      case Kind::kPower:
        return {power(a.re, static_cast<int64_t>(b.re)), 0};
      default:
        return {static_cast<int64_t>(a.re) < 0 ? 0 - a.re : a.re, 0};
    }
  } else {
    const T alpha = static_cast<T>(c.alpha);
    switch (c.kind) {
      case Kind::kAdd:
        return {a.re + alpha * b.re, a.im + alpha * b.im};
      case Kind::kMultiply:
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
      case Kind::kPower:
        return power(a, b, c.out.is_complex);
      case Kind::kPolar:
        return {a.re * cos(b.re), a.re * sin(b.re)};
      default:
        return {c.a.is_complex ? hypot(a.re, a.im) : fabs(a.re), T{0}};
    }
  }
}

template <typename T>
__global__ void arithmetic_kernel(__grid_constant__ const Arithmetic c) {
  for_each_item(c.count, [&](int64_t i) {
    int64_t rest = i, a = 0, b = 0, out = 0;
    for (int d = c.dims; d-- > 0;) {
      const int64_t at = rest % c.sizes[d];
      rest /= c.sizes[d];
      a += at * c.a.strides[d];
      b += at * c.b.strides[d];
      out += at * c.out.strides[d];
    }
    store<T>(c.out, out, result_of<T>(c, load<T>(c.a, a), load<T>(c.b, b)));
  });
}

Operand operand_of(const SlimTensor& tensor) {
  Operand operand;
  operand.numbers = {tensor.data(), static_cast<ScalarType>(aoti::real_of(tensor.dtype()))};
  operand.is_complex = slim::is_complex(tensor.dtype());
  std::copy(tensor.strides().begin(), tensor.strides().end(), operand.strides);
  return operand;
}

template <typename Item>
__global__ void set_kernel(Item* x, Item value) {
  *x = value;
}

}  // namespace

// In int64 where out and the operands are integers, in float64 where one of them is, else in
// float32.
Error arithmetic(const aoti::ArithmeticCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.a));
  Arithmetic c;
  c.kind = call.kind;
  c.alpha = call.alpha;
  c.a = operand_of(call.a);
  c.b = operand_of(call.b);
  c.out = operand_of(call.out);
  const ScalarType a_type = c.a.numbers.dtype, b_type = c.b.numbers.dtype;
  PTERON_CHECK_OR_RETURN(!is_float8(a_type) && !is_float8(b_type), Error::InvalidType,
                         "arithmetic: found %s and %s, expected other types", name_of(a_type),
                         name_of(b_type));
  c.dims = static_cast<int>(call.out.dim());
  c.count = call.out.numel();
  std::copy(call.out.sizes().begin(), call.out.sizes().end(), c.sizes);
  const ScalarType type = c.out.numbers.dtype;
  const auto kernel = !is_floating(type)           ? arithmetic_kernel<uint64_t>  // wraps
                      : type == ScalarType::Double ? arithmetic_kernel<double>
                                                   : arithmetic_kernel<float>;
  return launch_items(c.count, scope.stream(), "computing elements", kernel, c);
}

Error fill(const SlimTensor& out, const slim::Scalar& value) {
  if (out.numel() == 0) return Error::Ok;
  alignas(16) char bytes[16];
  slim::store_scalar(out.dtype(), bytes, value);
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(out));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr one, aoti::make_row_major({}, out.dtype(), out.device()));
  PTERON_RETURN_IF_ERROR(with_item(out.item_size(), "filling", [&](auto item) {
    std::memcpy(&item, bytes, sizeof item);
    set_kernel<<<1, 1, 0, scope.stream()>>>(one->data_as<decltype(item)>(), item);
    return launched("filling");
  }));
  return slim::copy_tensor(out, *one, true);
}

}  // namespace pteron::cuda
