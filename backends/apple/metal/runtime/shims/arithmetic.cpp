#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// kind: of ArithmeticCall, or -1 if only the dtype changes. scale: alpha for integers. parts: 2 for
// complex dtypes.
#define PTERON_ARITHMETIC_PARAMS              \
  struct ArithmeticParams {                   \
    int64_t dims, kind, scale;                \
    int64_t sizes[16], a[16], b[16], out[16]; \
    int64_t parts, a_parts, b_parts;          \
    float alpha;                              \
  };
PTERON_ARITHMETIC_PARAMS

// Elementwise on two broadcast tensors; integers are computed in 64 bits and wrap. A complex
// element is two floats.
const char kSource[] = PTERON_TEXT(PTERON_ARITHMETIC_PARAMS) R"MTL(
inline ulong power(ulong base, long exponent) {
  if (exponent < 0 && long(base) != 1 && long(base) != -1) return 0;
  if (exponent < 0) return exponent % 2 == 0 ? 1 : base;
  ulong result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

inline long of_integers(constant ArithmeticParams& p, ulong x, ulong y) {
  if (p.kind < 0) return x;
  if (p.kind == 0) return x + ulong(p.scale) * y;
  if (p.kind == 1) return x * y;
  if (p.kind == 2) return power(x, y);
  return x >> 63 ? 0 - x : x;
}

inline float of_floats(constant ArithmeticParams& p, float x, float y) {
  if (p.kind < 0) return x;
  if (p.kind == 0) return x + p.alpha * y;
  if (p.kind == 1) return x * y;
  if (p.kind == 2) return metal::precise::pow(x, y);
  return metal::fabs(x);
}

inline float length_of(float2 x) {
  const float a = metal::fabs(x.x), b = metal::fabs(x.y), most = a > b || a != a ? a : b;
  if (most == 0 || most == INFINITY) return most;
  return most * metal::precise::sqrt(a / most * (a / most) + b / most * (b / most));
}

inline float2 of_angle(float length, float angle) {
  return float2(length * metal::precise::cos(angle), length * metal::precise::sin(angle));
}

inline float2 of_complex(constant ArithmeticParams& p, float2 x, float2 y) {
  if (p.kind == 0) return float2(x.x + p.alpha * y.x, x.y + p.alpha * y.y);
  if (p.kind == 1) return float2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
  if (p.kind == 3) return float2(length_of(x), 0);
  if (p.kind == 4) return of_angle(x.x, y.x);
  if (x.x == 0 && x.y == 0) return float2(y.x == 0 && y.y == 0 ? 1 : 0, 0);
  const float size = metal::precise::log(length_of(x)), angle = metal::precise::atan2(x.y, x.x);
  return of_angle(metal::precise::exp(y.x * size - y.y * angle), y.y * size + y.x * angle);
}

kernel void of_elements(device OUT* out, device const A* a, device const B* b,
                        constant ArithmeticParams& p, uint i [[thread_position_in_grid]]) {
  long rest = i, at = 0, at_a = 0, at_b = 0;
  for (long d = p.dims; d-- > 0; rest /= p.sizes[d]) {
    at += rest % p.sizes[d] * p.out[d];
    at_a += rest % p.sizes[d] * p.a[d];
    at_b += rest % p.sizes[d] * p.b[d];
  }
  if (p.parts == 2 || p.a_parts == 2) {
    at *= p.parts, at_a *= p.a_parts, at_b *= p.b_parts;
    const float2 x(float(a[at_a]), p.a_parts == 2 ? float(a[at_a + 1]) : 0);
    const float2 y(float(b[at_b]), p.b_parts == 2 ? float(b[at_b + 1]) : 0);
    const float2 result = of_complex(p, x, y);
    out[at] = OUT(result.x);
    if (p.parts == 2) out[at + 1] = OUT(result.y);
    return;
  }
  out[at] = OUT_IS_INTEGER ? OUT(of_integers(p, ulong(long(a[at_a])), ulong(long(b[at_b]))))
                           : OUT(of_floats(p, float(a[at_a]), float(b[at_b])));
}
)MTL";

// The real dtype of a tensor's elements; complex elements have two values.
DType part_of(const SlimTensor& tensor) {
  return tensor.dtype() == DType::ComplexFloat ? DType::Float : tensor.dtype();
}

int64_t parts_of(const SlimTensor& tensor) { return tensor.dtype() == DType::ComplexFloat ? 2 : 1; }

// All of one size.
Error launch_of(int64_t kind, double alpha, const SlimTensor& a, const SlimTensor& b,
                const SlimTensor& out) {
  PTERON_CHECK_OR_RETURN(out.dim() <= kMostDims, Error::NotSupported,
                         "found %zu dimensions, at most %lld are possible", out.dim(),
                         static_cast<long long>(kMostDims));
  ArithmeticParams params{};
  params.dims = static_cast<int64_t>(out.dim());
  params.kind = kind;
  params.scale = static_cast<int64_t>(alpha);
  params.alpha = static_cast<float>(alpha);
  std::copy(out.sizes().begin(), out.sizes().end(), params.sizes);
  std::copy(a.strides().begin(), a.strides().end(), params.a);
  std::copy(b.strides().begin(), b.strides().end(), params.b);
  std::copy(out.strides().begin(), out.strides().end(), params.out);
  params.parts = parts_of(out);
  params.a_parts = parts_of(a);
  params.b_parts = parts_of(b);
  return launch(kSource, {{"A", part_of(a)}, {"B", part_of(b)}, {"OUT", part_of(out)}},
                "of_elements", {memory(out), memory(a), memory(b), bytes(params)},
                {static_cast<uint64_t>(out.numel()), 1, 1});
}

}  // namespace

Error arithmetic(const aoti::ArithmeticCall& call) {
  return launch_of(static_cast<int64_t>(call.kind), call.alpha, call.a, call.b, call.out);
}

Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return slim::contiguous_tensor(tensor);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy,
                          aoti::make_row_major(tensor.sizes(), dtype, tensor.device()));
  PTERON_RETURN_IF_ERROR(launch_of(-1, 0, tensor, tensor, *copy));
  return copy;
}

}  // namespace pteron::metal
