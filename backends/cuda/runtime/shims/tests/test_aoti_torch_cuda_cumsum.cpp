// cumsum.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

HostTensor reference(const HostTensor& x, size_t dim) {
  HostTensor sums = x;
  int64_t inner = 1;
  for (size_t i = dim + 1; i < x.sizes.size(); ++i) inner *= x.sizes[i];
  const int64_t n = x.sizes[dim];
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (i / inner % n > 0) {
      sums.values[static_cast<size_t>(i)] += sums.values[static_cast<size_t>(i - inner)];
    }
  }
  return sums;
}

TEST(CumsumContract, RefusesBadArguments) {
  TensorPtr x = pretend_cuda({4, 5}, DType::Float);
  SlimTensor* out = nullptr;
  EXPECT_EQ(ptrn_torch_cuda_cumsum(nullptr, 0, nullptr, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_cumsum(x.get(), 2, nullptr, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_cumsum(x.get(), 0, nullptr, nullptr), kAotiFailure);
  int32_t nonsense = 99;
  EXPECT_EQ(ptrn_torch_cuda_cumsum(x.get(), 0, &nonsense, &out), kAotiFailure);
  EXPECT_EQ(out, nullptr);
}

TEST(Cumsum, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  struct Shape {
    std::vector<int64_t> sizes;
    int64_t dim;
  };
  for (const Shape& shape : {Shape{{1}, 0}, Shape{{5000}, 0}, Shape{{7, 2049}, 1},
                             Shape{{33, 6}, 0}, Shape{{2, 70, 3}, -2}}) {
    const auto dims = static_cast<int64_t>(shape.sizes.size());
    const auto dim = static_cast<size_t>(shape.dim < 0 ? shape.dim + dims : shape.dim);
    for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16}) {
      const HostTensor x = round_to(HostTensor::random(shape.sizes, 1), dtype);
      TensorPtr input = to_device(x, dtype);
      SlimTensor* out = nullptr;
      ASSERT_EQ(ptrn_torch_cuda_cumsum(input.get(), shape.dim, nullptr, &out), kAotiSuccess)
          << shim_error();
      TensorPtr sums(out);
      EXPECT_EQ(sums->dtype(), dtype);
      EXPECT_TRUE(
          close_to(to_host(*sums), reference(x, dim), gemm_tolerance(dtype, shape.sizes[dim])));
    }
  }
}

TEST(Cumsum, SumsIntegersAsInt64) {
  PTERON_REQUIRE_CUDA();
  HostTensor x = HostTensor::random({3, 300}, 1);
  for (double& value : x.values) value = std::round(20 * value);
  for (DType dtype : {DType::Char, DType::Int, DType::Long}) {
    TensorPtr input = to_device(x, dtype);
    SlimTensor* out = nullptr;
    ASSERT_EQ(ptrn_torch_cuda_cumsum(input.get(), 1, nullptr, &out), kAotiSuccess) << shim_error();
    TensorPtr sums(out);
    EXPECT_EQ(sums->dtype(), DType::Long);
    EXPECT_TRUE(equal_to(to_host(*sums), reference(x, 1)));
  }
}

TEST(Cumsum, ConvertsToTheDtypeAskedFor) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x{{4}, {1, 0, 1, 1}};
  TensorPtr input = to_device(x, DType::Bool);
  auto wanted = static_cast<int32_t>(DType::Float);
  SlimTensor* out = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_cumsum(input.get(), 0, &wanted, &out), kAotiSuccess) << shim_error();
  TensorPtr sums(out);
  EXPECT_EQ(sums->dtype(), DType::Float);
  EXPECT_TRUE(equal_to(to_host(*sums), {{4}, {1, 1, 2, 3}}));
}

}  // namespace
}  // namespace pteron::cuda::testing
