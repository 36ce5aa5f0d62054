// Dtypes without a C++ type: half, bfloat16 and the float8 formats.
//
//   Half half(0.1f);           // rounded to nearest, ties to even
//   const float x = half;      // exact
//
// Each stores its bits as in a tensor. Converts through float.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace pteron {

namespace small_float_internal {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The value of a small binary float with `exponent_bits` and `mantissa_bits` and IEEE's bias.
// `finite_only`: the top exponent has finite values, and only all ones is NaN (float8_e4m3fn).
inline float decode(uint32_t bits, int exponent_bits, int mantissa_bits, bool finite_only) {
  const uint32_t sign = bits >> (exponent_bits + mantissa_bits) & 1;
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t exponent = bits >> mantissa_bits & top;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float magnitude;
  if (exponent == top && (!finite_only || mantissa == (1u << mantissa_bits) - 1)) {
    magnitude =
        mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) *
                float_of_bits(static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23);
  } else {
    magnitude = float_of_bits((exponent - bias + 127) << 23 | mantissa << (23 - mantissa_bits));
  }
  return sign ? -magnitude : magnitude;
}

inline uint32_t encode(float value, int exponent_bits, int mantissa_bits, bool finite_only) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = (bits >> 31) << (exponent_bits + mantissa_bits);
  const uint32_t top = (1u << exponent_bits) - 1;
  const uint32_t infinity = top << mantissa_bits;
  const uint32_t nan =
      finite_only ? infinity | ((1u << mantissa_bits) - 1) : infinity | 1u << (mantissa_bits - 1);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | nan;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
  // The mantissa with its leading one, rounded at a bit that depends on whether it is subnormal.
  int shift = 23 - mantissa_bits;
  uint32_t rounded;
  if (exponent <= 0) {
    shift += 1 - exponent;
    if (shift > 24) return sign;
    const uint32_t full = (magnitude & 0x7fffff) | 0x800000;
    rounded = full >> shift;
    const uint32_t rest = full & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1))) ++rounded;
  } else {
    const uint32_t full = static_cast<uint32_t>(exponent) << 23 | (magnitude & 0x7fffff);
    if (exponent > 255) return sign | (finite_only ? nan : infinity);
    rounded = full >> shift;
    const uint32_t rest = full & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1))) ++rounded;
  }
  const uint32_t limit = finite_only ? nan : infinity;
  return sign | (rounded >= limit ? limit : rounded);
}

template <int exponent_bits, int mantissa_bits, bool finite_only, typename Bits>
struct SmallFloat {
  Bits bits;
  SmallFloat() = default;
  explicit SmallFloat(float value)
      : bits(static_cast<Bits>(encode(value, exponent_bits, mantissa_bits, finite_only))) {}
  operator float() const {  // NOLINT(google-explicit-constructor)
    return decode(bits, exponent_bits, mantissa_bits, finite_only);
  }
};

}  // namespace small_float_internal

using Float8_e5m2 = small_float_internal::SmallFloat<5, 2, false, uint8_t>;
using Float8_e4m3fn = small_float_internal::SmallFloat<4, 3, true, uint8_t>;

struct Half {
  uint16_t bits;
  Half() = default;
#ifdef __F16C__
  explicit Half(float value) : bits(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)) {}
  operator float() const { return _cvtsh_ss(bits); }  // NOLINT(google-explicit-constructor)
#else
  explicit Half(float value)
      : bits(static_cast<uint16_t>(small_float_internal::encode(value, 5, 10, false))) {}
  operator float() const {  // NOLINT(google-explicit-constructor)
    return small_float_internal::decode(bits, 5, 10, false);
  }
#endif
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t raw = small_float_internal::bits_of_float(value);
    bits = value != value ? 0x7fc0 : static_cast<uint16_t>((raw + 0x7fff + (raw >> 16 & 1)) >> 16);
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    return small_float_internal::float_of_bits(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace pteron
