// randint_low_out.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/random.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

TEST(RandintLowOutContract, RefusesBadArguments) {
  TensorPtr out = pretend_cuda({4}, DType::Long);
  const int64_t sizes[] = {4}, others[] = {5};
  EXPECT_EQ(ptrn_torch_cuda_randint_low_out(nullptr, 0, 5, sizes, 1), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), 0, 5, others, 1), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), 0, 5, nullptr, 1), kAotiFailure);
}

TEST(RandintLowOut, DrawsEveryNumberAboutEquallyOften) {
  PTERON_REQUIRE_CUDA();
  constexpr int64_t kCount = 100000, kLow = -3, kHigh = 5;
  const int64_t sizes[] = {kCount};
  for (DType dtype : {DType::Long, DType::Int, DType::Float}) {
    TensorPtr out = poisoned({kCount}, dtype);
    ASSERT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), kLow, kHigh, sizes, 1), kAotiSuccess)
        << shim_error();
    std::vector<int> counts(kHigh - kLow, 0);
    for (double value : to_host(*out).values) {
      ASSERT_GE(value, kLow);
      ASSERT_LT(value, kHigh);
      ++counts[static_cast<size_t>(value - kLow)];
    }
    // 8 numbers, 12500 each; a deviation of 6 sigma is 630.
    for (int count : counts) EXPECT_NEAR(count, kCount / (kHigh - kLow), 630);
  }
}

TEST(RandintLowOut, CoversTheWholeRangeOfSeeds) {
  PTERON_REQUIRE_CUDA();
  const int64_t sizes[] = {1000};
  TensorPtr out = poisoned({1000}, DType::Long);
  ASSERT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), std::numeric_limits<int64_t>::min(),
                                            std::numeric_limits<int64_t>::max(), sizes, 1),
            kAotiSuccess)
      << shim_error();
  const HostTensor drawn = to_host(*out);
  const auto [low, high] = std::minmax_element(drawn.values.begin(), drawn.values.end());
  EXPECT_LT(*low, -8e18);
  EXPECT_GT(*high, 8e18);
}

TEST(RandintLowOut, RefusesAnEmptyRange) {
  PTERON_REQUIRE_CUDA();
  const int64_t sizes[] = {4};
  TensorPtr out = poisoned({4}, DType::Long);
  EXPECT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), 5, 5, sizes, 1), kAotiFailure);
  EXPECT_NE(shim_error().find("there are none"), std::string::npos) << shim_error();
}

TEST(RandomSequence, RepeatsAfterSeedingAndDrawsAnewOtherwise) {
  PTERON_REQUIRE_CUDA();
  const int64_t sizes[] = {64};
  const auto draw = [&] {
    TensorPtr out = poisoned({64}, DType::Long);
    EXPECT_EQ(ptrn_torch_cuda_randint_low_out(out.get(), 0, 1 << 30, sizes, 1), kAotiSuccess);
    return to_host(*out);
  };
  RandomSequence::of_process().seed(7);
  const HostTensor first = draw(), second = draw();
  RandomSequence::of_process().seed(7);
  EXPECT_TRUE(equal_to(draw(), first));
  EXPECT_FALSE(equal_to(second, first));
}

}  // namespace
}  // namespace pteron::cuda::testing
