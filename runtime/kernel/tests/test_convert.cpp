#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "pteron/runtime/kernel/convert.h"

namespace pteron {
namespace {

constexpr ScalarType kAll[] = {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  ScalarType::name,
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
};

class EveryDtype : public testing::TestWithParam<ScalarType> {};

TEST_P(EveryDtype, RoundTripsThroughTheNumberThatHoldsIt) {
  const ScalarType dtype = GetParam();
  const auto size = static_cast<int64_t>(element_size(dtype));
  dispatch_number(dtype, [&](auto number) {
    using Number = decltype(number);
    for (const int64_t step : {size, 3 * size}) {
      std::vector<std::byte> data(static_cast<size_t>(kBlock * step));
      std::vector<Number> written(kBlock);
      for (int64_t i = 0; i < kBlock; ++i) written[i] = static_cast<Number>(i % 2);
      written[0] = Number{1};
      store_block(dtype, data.data(), step, kBlock, written.data());
      Number buffer[kBlock];
      const Number* read = load_block(dtype, data.data(), step, kBlock, buffer);
      for (int64_t i = 0; i < kBlock; ++i) ASSERT_EQ(read[i], written[i]) << i;
      EXPECT_EQ(load_one<Number>(dtype, data.data()), Number{1});
    }
  });
}

TEST_P(EveryDtype, IsReadInPlaceOnlyWhenItIsTheNumber) {
  const ScalarType dtype = GetParam();
  alignas(8) std::byte data[64] = {};
  float buffer[4];
  const float* read = load_block(dtype, data, static_cast<int64_t>(element_size(dtype)), 4, buffer);
  EXPECT_EQ(read != buffer, dtype == ScalarType::Float);
}

INSTANTIATE_TEST_SUITE_P(All, EveryDtype, testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Convert, ToIntegersTowardsZero) {
  int32_t out = 0;
  auto* data = reinterpret_cast<std::byte*>(&out);
  store_one(ScalarType::Int, data, -2.9f);
  EXPECT_EQ(out, -2);
  store_one(ScalarType::Int, data, 2.9);
  EXPECT_EQ(out, 2);
}

TEST(Convert, FloatsOutOfRangeAreDefined) {
  int64_t out = 0;
  auto* data = reinterpret_cast<std::byte*>(&out);
  for (const double value : {1e300, -1e300, std::nan("")}) {
    store_one(ScalarType::Long, data, value);
    EXPECT_EQ(out, INT64_MIN) << value;
  }
  uint64_t large = 0;
  store_one(ScalarType::UInt64, reinterpret_cast<std::byte*>(&large), 1.5e19);
  EXPECT_EQ(large, 15000000000000000000u);
}

TEST(Convert, IntegersWrapAround) {
  uint8_t out = 0;
  store_one(ScalarType::Byte, reinterpret_cast<std::byte*>(&out), int64_t{-1});
  EXPECT_EQ(out, 255);
}

TEST(Convert, AnyByteThatIsNotZeroIsTrue) {
  const std::byte data[] = {std::byte{0}, std::byte{2}, std::byte{255}};
  EXPECT_EQ(load_one<int64_t>(ScalarType::Bool, data), 0);
  EXPECT_EQ(load_one<int64_t>(ScalarType::Bool, data + 1), 1);
  EXPECT_EQ(load_one<float>(ScalarType::Bool, data + 2), 1.0f);
}

TEST(Convert, SmallNumbersAreTrueAsBool) {
  std::byte out{};
  store_one(ScalarType::Bool, &out, 0.25f);
  EXPECT_EQ(out, std::byte{1});
  store_one(ScalarType::Bool, &out, std::nan(""));
  EXPECT_EQ(out, std::byte{1});
}

TEST(Convert, LargeUnsignedNumbersKeepTheirValue) {
  const uint64_t in = 0xffffffffffffffffu;
  EXPECT_EQ(load_one<double>(ScalarType::UInt64, reinterpret_cast<const std::byte*>(&in)), 0x1p64);
}

}  // namespace
}  // namespace pteron
