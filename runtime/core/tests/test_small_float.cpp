#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pteron/runtime/core/small_float.h"

namespace pteron {
namespace {

template <typename T>
class SmallFloat : public testing::Test {};
using Types = testing::Types<Half, BFloat16, Float8_e5m2, Float8_e4m3fn>;
TYPED_TEST_SUITE(SmallFloat, Types);

template <typename T>
T of_bits(uint32_t bits) {
  T value;
  value.bits = static_cast<decltype(value.bits)>(bits);
  return value;
}

TYPED_TEST(SmallFloat, EveryNumberComesBack) {
  for (uint32_t bits = 0; bits < 1u << (8 * sizeof(TypeParam)); ++bits) {
    const auto value = of_bits<TypeParam>(bits);
    if (std::isnan(float{value})) {
      EXPECT_TRUE(std::isnan(float{TypeParam(float{value})})) << bits;
    } else {
      EXPECT_EQ(TypeParam(float{value}).bits, value.bits) << float{value};
    }
  }
}

TYPED_TEST(SmallFloat, RoundsToNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < (1u << (8 * sizeof(TypeParam) - 1)) - 1; ++bits) {
    const float low = of_bits<TypeParam>(bits), high = of_bits<TypeParam>(bits + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    if (middle == low || middle == high) continue;  // not a float
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(float{TypeParam(middle)}, bits % 2 ? high : low);
    EXPECT_EQ(float{TypeParam(-middle)}, bits % 2 ? -high : -low);
    EXPECT_EQ(float{TypeParam(std::nextafter(middle, -infinity))}, low);
    EXPECT_EQ(float{TypeParam(std::nextafter(middle, infinity))}, high);
  }
}

TEST(SmallFloat, BeyondTheLargest) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float{Half(65520.0f)}, infinity);
  EXPECT_EQ(float{BFloat16(-3.4e38f)}, -infinity);
  EXPECT_EQ(float{Float8_e5m2(61440.0f)}, infinity);
  EXPECT_TRUE(std::isnan(float{Float8_e4m3fn(480.0f)}));
}

}  // namespace
}  // namespace pteron
