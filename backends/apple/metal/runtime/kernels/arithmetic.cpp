#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// Elementwise on two broadcast tensors; integers are computed in 64 bits and wrap. A complex
// element is two floats.
const char kArithmeticSource[] = R"MTL(
struct ArithmeticParams {
  long dims, kind, scale;
  long sizes[16], a[16], b[16], out[16];
  long parts, a_parts, b_parts;
  float alpha;
};

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

}  // namespace pteron::metal
