#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pteron/runtime/kernel/small_float.h"

namespace pteron {
namespace {

// What the bits mean, from the definition of the format.
template <typename Format>
double slow_value(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t sign = bits >> (exponent_bits + mantissa_bits);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const int top = (1 << exponent_bits) - 1;
  double value;
  if (exponent == top && has_infinity) {
    value = mantissa ? std::nan("") : std::numeric_limits<double>::infinity();
  } else if (exponent == top && mantissa == (1 << mantissa_bits) - 1) {
    value = std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  return sign ? -value : value;
}

// Every bit pattern means what the definition says and survives a round trip; every float between
// two neighbours goes to the nearer one, and to the even one from the middle.
template <typename Format, typename Bits>
void check_all(int exponent_bits, int mantissa_bits, bool has_infinity) {
  const uint32_t count = 1u << (1 + exponent_bits + mantissa_bits);
  for (uint32_t bits = 0; bits < count; ++bits) {
    const double expected = slow_value<Format>(bits, exponent_bits, mantissa_bits, has_infinity);
    const float found = Format::to_float(static_cast<Bits>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
      EXPECT_TRUE(std::isnan(Format::to_float(Format::from_float(found)))) << bits;
      continue;
    }
    ASSERT_EQ(found, expected) << bits;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
    ASSERT_EQ(Format::from_float(found), bits);
    const double next = slow_value<Format>(bits + 1, exponent_bits, mantissa_bits, has_infinity);
    if (bits + 1 >= count / 2 || !std::isfinite(expected) || !std::isfinite(next)) continue;
    const auto middle = static_cast<float>((expected + next) / 2);
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    EXPECT_EQ(Format::from_float(middle), even) << bits;
    EXPECT_EQ(Format::from_float(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(Format::from_float(std::nextafter(middle, HUGE_VALF)), bits + 1);
  }
}

TEST(SmallFloat, Half) { check_all<HalfBits, uint16_t>(5, 10, true); }
TEST(SmallFloat, BFloat16) { check_all<BFloat16Bits, uint16_t>(8, 7, true); }
TEST(SmallFloat, Float8E5M2) { check_all<Float8E5M2Bits, uint8_t>(5, 2, true); }
TEST(SmallFloat, Float8E4M3Fn) { check_all<Float8E4M3FnBits, uint8_t>(4, 3, false); }

TEST(SmallFloat, TooLargeBecomesInfinityOrNan) {
  EXPECT_EQ(HalfBits::from_float(65504.0f), 0x7bff);
  EXPECT_EQ(HalfBits::from_float(65520.0f), 0x7c00);
  EXPECT_EQ(HalfBits::from_float(-1e30f), 0xfc00);
  EXPECT_EQ(Float8E4M3FnBits::from_float(448.0f), 0x7e);
  EXPECT_EQ(Float8E4M3FnBits::from_float(1e30f), 0x7f);
  EXPECT_EQ(BFloat16Bits::from_float(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(SmallFloat, TooSmallBecomesZeroWithItsSign) {
  EXPECT_EQ(HalfBits::from_float(1e-10f), 0x0000);
  EXPECT_EQ(HalfBits::from_float(-1e-10f), 0x8000);
}

}  // namespace
}  // namespace pteron
