// Conversions and sums of rows, of lengths that fill registers and others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/online_softmax.h"

namespace pteron::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(ToBfloat16, RoundsToTheNearestAndHalvesToTheEvenOne) {
  const std::vector<float> given = {1.0f,
                                    from_bits(0x3f808000),  // half of a step above 1: down
                                    from_bits(0x3f818000),  // above an odd one: up
                                    from_bits(0x3f808001),
                                    from_bits(0xbf807fff),
                                    kInfinity,
                                    -kInfinity,
                                    -0.0f,
                                    from_bits(0x7f7fffff)};
  const std::vector<uint16_t> expected = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf80,
                                          0x7f80, 0xff80, 0x8000, 0x7f80};
  for (size_t count = 1; count <= 70; ++count) {
    std::vector<float> row(count);
    for (size_t i = 0; i < count; ++i) row[i] = given[i % given.size()];
    std::vector<uint16_t> found(count);
    to_bfloat16(row.data(), count, found.data());
    std::vector<float> back(count);
    from_bfloat16(found.data(), count, back.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i], expected[i % given.size()]) << i << " of " << count;
      ASSERT_EQ(back[i], from_bits(uint32_t{found[i]} << 16)) << i << " of " << count;
    }
  }
}

TEST(ToBfloat16, KeepsNan) {
  for (uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    const float nan = from_bits(bits);
    uint16_t narrow;
    float wide;
    to_bfloat16(&nan, 1, &narrow);
    from_bfloat16(&narrow, 1, &wide);
    EXPECT_TRUE(std::isnan(wide)) << bits;
  }
}

TEST(Interleave, PutsTwoRowsSideBySide) {
  for (int64_t count : {1, 5, 16, 37, 64}) {
    std::vector<uint16_t> even(count), odd(count);
    for (int64_t i = 0; i < count; ++i) {
      even[i] = static_cast<uint16_t>(65535 - i);
      odd[i] = static_cast<uint16_t>(40000 + i);
    }
    std::vector<uint32_t> found(count), alone(count);
    interleave(even.data(), odd.data(), count, found.data());
    interleave(even.data(), nullptr, count, alone.data());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i], even[i] | uint32_t{odd[i]} << 16) << i << " of " << count;
      ASSERT_EQ(alone[i], even[i]) << i << " of " << count;
    }
  }
}

TEST(Add, AddsEachElement) {
  for (int64_t count : {1, 15, 16, 50}) {
    std::vector<float> sums(count), terms(count);
    for (int64_t i = 0; i < count; ++i) {
      sums[i] = static_cast<float>(i);
      terms[i] = i == 3 ? -kInfinity : 2.0f * static_cast<float>(i);
    }
    add(sums.data(), count, terms.data());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(sums[i], i == 3 ? -kInfinity : 3.0f * static_cast<float>(i));
    }
  }
}

}  // namespace
}  // namespace pteron::cpu
