// bmm_out and baddbmm_out: batches of products.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

AOTITorchError bmm(const TensorPtr& out, const TensorPtr& a, const TensorPtr& b) {
  return ptrn_torch_cuda_bmm_out(out.get(), a.get(), b.get());
}

TEST(BmmOutContract, RefusesWhatIsNoBatch) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({1, 3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({1, 2, 4}, DType::Float);
  EXPECT_EQ(bmm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("expected 3 dimensions"), std::string::npos) << shim_error();
}

TEST(BmmOutContract, RefusesOtherBatches) {
  TensorPtr a = pretend_cuda({2, 2, 3}, DType::Float), b = pretend_cuda({1, 3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 2, 4}, DType::Float);
  EXPECT_EQ(bmm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("[b, m, k]"), std::string::npos) << shim_error();
}

TEST(BaddbmmOutContract, RefusesASelfThatDoesNotBroadcast) {
  TensorPtr a = pretend_cuda({2, 2, 3}, DType::Float), b = pretend_cuda({2, 3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 2, 4}, DType::Float), self = pretend_cuda({3}, DType::Float);
  EXPECT_EQ(ptrn_torch_cuda_baddbmm_out(out.get(), self.get(), a.get(), b.get(), 1.0, 1.0),
            kAotiFailure);
  EXPECT_NE(shim_error().find("broadcasts"), std::string::npos) << shim_error();
}

struct Layout {
  const char* name;
  std::vector<int64_t> a, b, out;  // strides for (6, 24, 40) @ (6, 40, 56)
};

class BmmOutLayout : public ::testing::TestWithParam<Layout> {};

TEST_P(BmmOutLayout, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::BFloat16, DType::Half, DType::Float, DType::Double}) {
    const HostTensor a = round_to(HostTensor::random({6, 24, 40}, 3), dtype);
    const HostTensor b = round_to(HostTensor::random({6, 40, 56}, 4), dtype);
    TensorPtr x = to_device(a, dtype, GetParam().a), y = to_device(b, dtype, GetParam().b);
    TensorPtr out = poisoned({6, 24, 56}, dtype, GetParam().out);
    ASSERT_EQ(bmm(out, x, y), kAotiSuccess) << shim_error();
    EXPECT_TRUE(close_to(to_host(*out), matmul(a, b), gemm_tolerance(dtype, 40)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strides, BmmOutLayout,
    ::testing::Values(Layout{"row_major", {}, {}, {}},
                      Layout{"heads_inside", {40, 240, 1}, {56, 336, 1}, {56, 336, 1}},
                      Layout{"keys_transposed", {}, {2240, 1, 40}, {}},
                      Layout{"activation_transposed", {960, 1, 24}, {}, {}},
                      Layout{"padded", {1200, 48, 1}, {2560, 64, 1}, {1800, 72, 1}},
                      Layout{"neither_contiguous", {1920, 80, 2}, {4480, 112, 2}, {2688, 112, 2}}),
    [](const ::testing::TestParamInfo<Layout>& info) { return info.param.name; });

TEST(BmmOut, SharesOneMatrixByTheBatch) {
  PTERON_REQUIRE_CUDA();
  const DType dtype = DType::Float;
  const HostTensor a = round_to(HostTensor::random({3, 8, 16}, 1), dtype);
  const HostTensor one = round_to(HostTensor::random({1, 16, 8}, 2), dtype);
  HostTensor b{{3, 16, 8}, {}};
  for (int i = 0; i < 3; ++i) b.values.insert(b.values.end(), one.values.begin(), one.values.end());
  TensorPtr x = to_device(a, dtype), matrix = to_device(one, dtype);
  TensorPtr shared = std::make_unique<SlimTensor>();
  const int64_t sizes[] = {3, 16, 8}, strides[] = {0, 8, 1};
  ASSERT_TRUE(shared->set(matrix->storage(), sizes, strides, 0, dtype).ok());
  TensorPtr out = poisoned({3, 8, 8}, dtype);
  ASSERT_EQ(bmm(out, x, shared), kAotiSuccess) << shim_error();
  EXPECT_TRUE(close_to(to_host(*out), matmul(a, b), gemm_tolerance(dtype, 16)));
}

TEST(BmmOut, LeavesAnEmptyBatchAlone) {
  PTERON_REQUIRE_CUDA();
  TensorPtr a = poisoned({0, 2, 3}, DType::Float), b = poisoned({0, 3, 4}, DType::Float);
  TensorPtr out = poisoned({0, 2, 4}, DType::Float);
  EXPECT_EQ(bmm(out, a, b), kAotiSuccess) << shim_error();
}

TEST(BmmOut, GivesZerosForAnEmptySum) {
  PTERON_REQUIRE_CUDA();
  TensorPtr a = poisoned({2, 3, 0}, DType::Half), b = poisoned({2, 0, 4}, DType::Half);
  TensorPtr out = poisoned({2, 3, 4}, DType::Half);
  ASSERT_EQ(bmm(out, a, b), kAotiSuccess) << shim_error();
  EXPECT_TRUE(equal_to(to_host(*out), HostTensor::zeros({2, 3, 4})));
}

TEST(BaddbmmOut, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::BFloat16, DType::Float, DType::Double}) {
    const HostTensor a = round_to(HostTensor::random({4, 8, 16}, 1), dtype);
    const HostTensor b = round_to(HostTensor::random({4, 16, 24}, 2), dtype);
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{4, 8, 24}, {1, 8, 24}, {8, 24}, {24}, {4, 1, 24}, {4, 8, 1}}) {
      const HostTensor self = round_to(HostTensor::random(sizes, 3), dtype);
      TensorPtr x = to_device(a, dtype), y = to_device(b, dtype), c = to_device(self, dtype);
      TensorPtr out = poisoned({4, 8, 24}, dtype);
      ASSERT_EQ(ptrn_torch_cuda_baddbmm_out(out.get(), c.get(), x.get(), y.get(), 0.5, 2.0),
                kAotiSuccess)
          << shim_error();
      std::vector<int64_t> full(3 - sizes.size(), 1);
      full.insert(full.end(), sizes.begin(), sizes.end());
      HostTensor expected = matmul(a, b);
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 8; ++j) {
          for (int64_t k = 0; k < 24; ++k) {
            const int64_t at =
                ((full[0] == 1 ? 0 : i) * full[1] + (full[1] == 1 ? 0 : j)) * full[2] +
                (full[2] == 1 ? 0 : k);
            double& value = expected.values[static_cast<size_t>((i * 8 + j) * 24 + k)];
            value = 2.0 * value + 0.5 * self.values[static_cast<size_t>(at)];
          }
        }
      }
      EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 16)))
          << slim::name_of(dtype) << " self of rank " << sizes.size();
    }
  }
}

}  // namespace
}  // namespace pteron::cuda::testing
