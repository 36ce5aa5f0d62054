// The distributions of random numbers. Bounds are six standard deviations or more.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/ops/tests/conformance.h"
#include "pteron/backends/aoti/shims/c_boundary.h"

namespace pteron::aoti::conformance {
namespace {

constexpr int kDraws = 40000;

// What a call gives, or what it writes to its first argument.
std::vector<int64_t> draw(const char* shim, const Json& arguments) {
  const DeviceShims device = device_shims();
  Call call(device.device, arguments);
  EXPECT_EQ(device.shims.at(shim)(call), kAotiSuccess) << shim_error();
  const slim::SlimTensor* drawn = call.num_results() > 0 ? call.result(0) : call.argument(0);
  std::vector<int64_t> numbers;
  if (!drawn) return numbers;
  for (const Scalar& element : call.read(*drawn)) numbers.push_back(element.to_int64());
  return numbers;
}

Json zeros(const char* dtype, int64_t count) {
  return {{"dtype", dtype}, {"sizes", {count}}, {"formula", {0, 0, 1, 0, 0}}};
}

// `rows` rows of three numbers.
Json rows_of(std::vector<double> row, int64_t rows) {
  Json data = Json::array();
  for (int64_t i = 0; i < rows * 3; ++i) data.push_back(row[static_cast<size_t>(i % 3)]);
  return {{"dtype", "float32"}, {"sizes", {rows, 3}}, {"data", data}};
}

void expect_share(int64_t count, int64_t of, double share) {
  const double sigma = std::sqrt(static_cast<double>(of) * share * (1 - share));
  EXPECT_NEAR(static_cast<double>(count), static_cast<double>(of) * share, 6 * sigma);
}

class Random : public testing::Test {
 protected:
  void SetUp() override {
    const DeviceShims device = device_shims();
    if (device.why_not) GTEST_SKIP() << device.why_not;
    // A test's name begins with that of its shim.
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    const bool has_shim =
        std::any_of(device.shims.begin(), device.shims.end(),
                    [&](const auto& shim) { return test.rfind(shim.first + "_", 0) == 0; });
    if (!has_shim) GTEST_SKIP() << "the device has no such operator";
  }
};

TEST_F(Random, randint_low_out_DrawsEveryNumberAboutEquallyOften) {
  for (const char* dtype : {"int64", "int32", "float32"}) {
    const Json arguments = {zeros(dtype, kDraws), -3, 5, {kDraws}};
    const std::vector<int64_t> drawn = draw("randint_low_out", arguments);
    for (int64_t k = -3; k < 5; ++k) {
      expect_share(std::count(drawn.begin(), drawn.end(), k), kDraws, 1.0 / 8);
    }
    EXPECT_NE(draw("randint_low_out", arguments), drawn);
  }
}

TEST_F(Random, randint_low_out_CoversTheWholeRangeOfSeeds) {
  using Limits = std::numeric_limits<int64_t>;
  const auto drawn =
      draw("randint_low_out", {zeros("int64", 1000), Limits::min(), Limits::max(), {1000}});
  const auto [low, high] = std::minmax_element(drawn.begin(), drawn.end());
  EXPECT_LT(static_cast<double>(*low), -8e18);
  EXPECT_GT(static_cast<double>(*high), 8e18);
}

TEST_F(Random, randperm_GivesEveryNumberOnceInAnyOrder) {
  for (const char* dtype : {"int64", "int32", "float32"}) {
    const Json arguments = {1000, dtype, nullptr, nullptr, nullptr};
    std::vector<int64_t> drawn = draw("randperm", arguments), sorted(1000);
    EXPECT_NE(draw("randperm", arguments), drawn);
    std::iota(sorted.begin(), sorted.end(), 0);
    EXPECT_NE(drawn, sorted);
    std::sort(drawn.begin(), drawn.end());
    EXPECT_EQ(drawn, sorted);
  }
  int counts[3] = {};
  for (int i = 0; i < 3000; ++i) {
    ++counts[draw("randperm", {3, nullptr, nullptr, nullptr, nullptr}).at(1)];
  }
  for (const int count : counts) expect_share(count, 3000, 1.0 / 3);
}

TEST_F(Random, multinomial_DrawsByTheNumbers) {
  const auto drawn = draw("multinomial", {rows_of({0.5, 0, 1.5}, 2), kDraws, true, nullptr});
  ASSERT_EQ(drawn.size(), 2u * kDraws);
  for (const auto* row : {drawn.data(), drawn.data() + kDraws}) {
    expect_share(std::count(row, row + kDraws, 0), kDraws, 0.25);
    EXPECT_EQ(std::count(row, row + kDraws, 1), 0);
  }
}

TEST_F(Random, multinomial_DrawsWithoutReplacement) {
  constexpr int64_t kRows = 8000;
  const auto drawn = draw("multinomial", {rows_of({1, 3, 4}, kRows), 2, false, nullptr});
  ASSERT_EQ(drawn.size(), 2u * kRows);
  int64_t first[3] = {}, after_2[3] = {};
  for (size_t i = 0; i < drawn.size(); i += 2) {
    ASSERT_NE(drawn[i], drawn[i + 1]);
    ++first[drawn[i]];
    if (drawn[i] == 2) ++after_2[drawn[i + 1]];
  }
  expect_share(first[0], kRows, 1.0 / 8);
  expect_share(first[1], kRows, 3.0 / 8);
  expect_share(after_2[0], first[2], 1.0 / 4);
}

}  // namespace
}  // namespace pteron::aoti::conformance
