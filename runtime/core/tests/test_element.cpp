#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pteron/runtime/core/element.h"

namespace pteron {
namespace {

template <typename Number, typename Stored>
Number load(ScalarType dtype, Stored stored) {
  EXPECT_EQ(sizeof stored, element_size(dtype));
  return load_one<Number>(dtype, reinterpret_cast<const std::byte*>(&stored));
}

TEST(LoadOne, Integers) {
  EXPECT_EQ(load<int64_t>(ScalarType::Byte, uint8_t{200}), 200);
  EXPECT_EQ(load<int64_t>(ScalarType::Char, int8_t{-3}), -3);
  EXPECT_EQ(load<int64_t>(ScalarType::Short, int16_t{-300}), -300);
  EXPECT_EQ(load<int64_t>(ScalarType::Int, int32_t{-70000}), -70000);
  EXPECT_EQ(load<int64_t>(ScalarType::Long, INT64_MIN), INT64_MIN);
  EXPECT_EQ(load<int64_t>(ScalarType::UInt16, uint16_t{65535}), 65535);
  EXPECT_EQ(load<int64_t>(ScalarType::UInt32, uint32_t{4294967295}), 4294967295);
  EXPECT_EQ(load<double>(ScalarType::UInt64, uint64_t{0xffffffffffffffff}), 0x1p64);
}

TEST(LoadOne, AnyByteThatIsNotZeroIsTrue) {
  EXPECT_EQ(load<int64_t>(ScalarType::Bool, uint8_t{0}), 0);
  EXPECT_EQ(load<int64_t>(ScalarType::Bool, uint8_t{2}), 1);
  EXPECT_EQ(load<double>(ScalarType::Bool, uint8_t{255}), 1.0);
}

TEST(LoadOne, Floats) {
  EXPECT_EQ(load<double>(ScalarType::Float, 0.1f), double{0.1f});
  EXPECT_EQ(load<double>(ScalarType::Double, 0.1), 0.1);
  EXPECT_EQ(load<int64_t>(ScalarType::Double, -2.9), -2);
}

// The largest number, one, the smallest of each kind, and what is no number.
TEST(LoadOne, SmallFloats) {
  const double infinity = std::numeric_limits<double>::infinity();
  const struct {
    ScalarType dtype;
    uint16_t bits;
    double value;
  } kCases[] = {
      {ScalarType::Half, 0x7bff, 65504},         {ScalarType::Half, 0xbc00, -1},
      {ScalarType::Half, 0x0400, 0x1p-14},       {ScalarType::Half, 0x8001, -0x1p-24},
      {ScalarType::Half, 0xfc00, -infinity},     {ScalarType::BFloat16, 0x7f7f, 0x1.fep127},
      {ScalarType::BFloat16, 0xbf80, -1},        {ScalarType::BFloat16, 0x0080, 0x1p-126},
      {ScalarType::BFloat16, 0x0001, 0x1p-133},  {ScalarType::BFloat16, 0x7f80, infinity},
      {ScalarType::Float8_e5m2, 0x7b, 57344},    {ScalarType::Float8_e5m2, 0x81, -0x1p-16},
      {ScalarType::Float8_e5m2, 0x7c, infinity}, {ScalarType::Float8_e4m3fn, 0x7e, 448},
      {ScalarType::Float8_e4m3fn, 0xb8, -1},     {ScalarType::Float8_e4m3fn, 0x01, 0x1p-9},
  };
  for (const auto& [dtype, bits, value] : kCases) {
    const auto* data = reinterpret_cast<const std::byte*>(&bits);  // the low byte comes first
    EXPECT_EQ(load_one<double>(dtype, data), value) << name_of(dtype) << " " << bits;
  }
  EXPECT_TRUE(std::signbit(load<double>(ScalarType::Half, uint16_t{0x8000})));
  EXPECT_TRUE(std::isnan(load<double>(ScalarType::Half, uint16_t{0x7c01})));
  EXPECT_TRUE(std::isnan(load<double>(ScalarType::BFloat16, uint16_t{0xffc0})));
  EXPECT_TRUE(std::isnan(load<double>(ScalarType::Float8_e5m2, uint8_t{0x7d})));
  EXPECT_TRUE(std::isnan(load<double>(ScalarType::Float8_e4m3fn, uint8_t{0xff})));
}

}  // namespace
}  // namespace pteron
