// Floating types of 8 and 16 bits, as bits, to and from float. Rounding is to nearest even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace pteron {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A format of `Exponent` and `Mantissa` bits after the sign. `HasInfinity` as in IEEE 754; without
// it the largest exponent holds numbers too, all ones is NaN, and what is too large becomes NaN.
template <typename Bits, int Exponent, int Mantissa, bool HasInfinity>
struct SmallFloat {
  Bits bits;

  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr uint32_t kMagnitude = (1u << (Exponent + Mantissa)) - 1;
  static constexpr uint32_t kTopExponent = ((1u << Exponent) - 1) << Mantissa;

  static float to_float(Bits bits) {
    const uint32_t sign = static_cast<uint32_t>(bits >> (Exponent + Mantissa)) << 31;
    const uint32_t magnitude = bits & kMagnitude;
    if (HasInfinity ? magnitude > kTopExponent : magnitude == kMagnitude) {
      return float_of_bits(sign | 0x7fc00000u);
    }
    if (HasInfinity && magnitude == kTopExponent) return float_of_bits(sign | 0x7f800000u);
    // The magnitude's bits, moved in place, are a float that is too small by a power of two. The
    // product is exact, also where the small format is subnormal.
    const float scaled = float_of_bits(magnitude << (23 - Mantissa));
    const float value = scaled * float_of_bits(static_cast<uint32_t>(254 - kBias) << 23);
    return float_of_bits(sign | bits_of(value));
  }

  static Bits from_float(float value) {
    const uint32_t all = bits_of(value);
    const Bits sign = static_cast<Bits>((all >> 31) << (Exponent + Mantissa));
    const uint32_t magnitude = all & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<Bits>(sign | nan_bits());
    constexpr int kMinNormal = 1 - kBias;  // exponent of the smallest normal number
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    uint32_t rounded;
    if (exponent < kMinNormal) {
      // Adding a float whose last bit is worth one subnormal step rounds by itself.
      const float step =
          float_of_bits(static_cast<uint32_t>(kMinNormal - Mantissa + 23 + 127) << 23);
      rounded = bits_of(float_of_bits(magnitude) + step) - bits_of(step);
    } else {
      constexpr int kDropped = 23 - Mantissa;
      const uint32_t odd = (magnitude >> kDropped) & 1u;
      const uint32_t nearest = magnitude + (1u << (kDropped - 1)) - 1 + odd;
      rounded = (nearest >> kDropped) - (static_cast<uint32_t>(127 - kBias) << Mantissa);
    }
    const uint32_t limit = HasInfinity ? kTopExponent : kMagnitude;
    if (rounded >= limit) return static_cast<Bits>(sign | limit);  // infinity, or NaN without one
    return static_cast<Bits>(sign | rounded);
  }

 private:
  static constexpr uint32_t nan_bits() {
    return HasInfinity ? kTopExponent | (1u << (Mantissa - 1)) : kMagnitude;
  }
};

using HalfBits = SmallFloat<uint16_t, 5, 10, true>;
using Float8E5M2Bits = SmallFloat<uint8_t, 5, 2, true>;
using Float8E4M3FnBits = SmallFloat<uint8_t, 4, 3, false>;

// The upper half of a float; needs no scaling.
struct BFloat16Bits {
  uint16_t bits;

  static float to_float(uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); }
  static uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

}  // namespace pteron
