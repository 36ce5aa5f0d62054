// addmm_out: out = beta * self + alpha * mat1 @ mat2.
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

AOTITorchError addmm(const TensorPtr& out, const TensorPtr& self, const TensorPtr& a,
                     const TensorPtr& b, double beta = 1.0, double alpha = 1.0) {
  return ptrn_torch_cuda_addmm_out(out.get(), self.get(), a.get(), b.get(), beta, alpha);
}

TEST(AddmmOutContract, RefusesNullHandles) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(addmm(out, nullptr, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("self is null"), std::string::npos) << shim_error();
}

TEST(AddmmOutContract, RefusesASelfThatDoesNotBroadcast) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float), self = pretend_cuda({3}, DType::Float);
  EXPECT_EQ(addmm(out, self, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("broadcasts"), std::string::npos) << shim_error();
}

TEST(AddmmOutContract, RefusesAnotherDtypeOfSelf) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float), self = pretend_cuda({4}, DType::Half);
  EXPECT_EQ(addmm(out, self, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("one dtype"), std::string::npos) << shim_error();
}

TEST(AddmmOutContract, SaysShapesThatDoNotFit) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({4, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float), self = pretend_cuda({4}, DType::Float);
  EXPECT_EQ(addmm(out, self, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("float32[4, 4]"), std::string::npos) << shim_error();
}

struct Addend {
  const char* name;
  std::vector<int64_t> sizes;    // of self, for an out of (24, 56)
  std::vector<int64_t> strides;  // empty: row-major
};

class AddmmOutAddend : public ::testing::TestWithParam<Addend> {};

// self as numbers in the shape of out.
HostTensor expand(const HostTensor& self, int64_t m, int64_t n) {
  HostTensor out = HostTensor::zeros({m, n});
  const int64_t dims = static_cast<int64_t>(self.sizes.size());
  const int64_t rows = dims == 2 ? self.sizes[0] : 1;
  const int64_t cols = dims >= 1 ? self.sizes.back() : 1;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      out.values[static_cast<size_t>(i * n + j)] =
          self.values[static_cast<size_t>((rows == 1 ? 0 : i) * cols + (cols == 1 ? 0 : j))];
    }
  }
  return out;
}

TEST_P(AddmmOutAddend, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::BFloat16, DType::Half, DType::Float, DType::Double}) {
    for (auto [beta, alpha] : std::vector<std::pair<double, double>>{{1, 1}, {0.5, 2}, {0, 1}}) {
      const HostTensor a = round_to(HostTensor::random({24, 40}, 3), dtype);
      const HostTensor b = round_to(HostTensor::random({40, 56}, 4), dtype);
      const HostTensor self = round_to(HostTensor::random(GetParam().sizes, 5), dtype);
      TensorPtr x = to_device(a, dtype), w = to_device(b, dtype, {1, 40});
      TensorPtr c = to_device(self, dtype, GetParam().strides);
      TensorPtr out = poisoned({24, 56}, dtype);
      ASSERT_EQ(addmm(out, c, x, w, beta, alpha), kAotiSuccess) << shim_error();
      HostTensor expected = matmul(a, b);
      const HostTensor addend = expand(self, 24, 56);
      for (size_t i = 0; i < expected.values.size(); ++i) {
        expected.values[i] = alpha * expected.values[i] + beta * addend.values[i];
      }
      EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 40)))
          << slim::name_of(dtype) << " beta " << beta << " alpha " << alpha;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Selves, AddmmOutAddend,
                         ::testing::Values(Addend{"bias", {56}, {}}, Addend{"matrix", {24, 56}, {}},
                                           Addend{"matrix_padded", {24, 56}, {64, 1}},
                                           Addend{"matrix_transposed", {24, 56}, {1, 24}},
                                           Addend{"matrix_strided", {24, 56}, {112, 2}},
                                           Addend{"row", {1, 56}, {}},
                                           Addend{"column", {24, 1}, {}}, Addend{"one", {1}, {}},
                                           Addend{"scalar", {}, {}}),
                         [](const ::testing::TestParamInfo<Addend>& info) {
                           return info.param.name;
                         });

TEST(AddmmOut, ReadsAnExpandedBias) {
  PTERON_REQUIRE_CUDA();
  // As generated code passes it: the bias seen as (m, n) with a row stride of 0.
  const DType dtype = DType::BFloat16;
  const HostTensor a = round_to(HostTensor::random({8, 64}, 1), dtype);
  const HostTensor b = round_to(HostTensor::random({64, 32}, 2), dtype);
  const HostTensor bias = round_to(HostTensor::random({32}, 3), dtype);
  TensorPtr x = to_device(a, dtype), w = to_device(b, dtype), vector = to_device(bias, dtype);
  TensorPtr expanded = std::make_unique<SlimTensor>();
  const int64_t sizes[] = {8, 32}, strides[] = {0, 1};
  ASSERT_TRUE(expanded->set(vector->storage(), sizes, strides, 0, dtype).ok());
  TensorPtr out = poisoned({8, 32}, dtype);
  ASSERT_EQ(addmm(out, expanded, x, w), kAotiSuccess) << shim_error();
  HostTensor expected = matmul(a, b);
  for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] += bias.values[i % 32];
  EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 64)));
}

TEST(AddmmOut, AddsToOutInPlace) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::BFloat16, DType::Float, DType::Double}) {
    const HostTensor a = round_to(HostTensor::random({16, 32}, 1), dtype);
    const HostTensor b = round_to(HostTensor::random({32, 24}, 2), dtype);
    const HostTensor before = round_to(HostTensor::random({16, 24}, 3), dtype);
    TensorPtr x = to_device(a, dtype), w = to_device(b, dtype), out = to_device(before, dtype);
    ASSERT_EQ(addmm(out, out, x, w), kAotiSuccess) << shim_error();
    HostTensor expected = matmul(a, b);
    for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] += before.values[i];
    EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 32)));
  }
}

TEST(AddmmOut, DoesNotReadSelfWhenBetaIsZero) {
  PTERON_REQUIRE_CUDA();
  const HostTensor a = round_to(HostTensor::random({4, 8}, 1), DType::Float);
  const HostTensor b = round_to(HostTensor::random({8, 4}, 2), DType::Float);
  TensorPtr x = to_device(a, DType::Float), w = to_device(b, DType::Float);
  TensorPtr nan = poisoned({4, 4}, DType::Float), out = poisoned({4, 4}, DType::Float);
  ASSERT_EQ(addmm(out, nan, x, w, 0.0), kAotiSuccess) << shim_error();
  EXPECT_TRUE(close_to(to_host(*out), matmul(a, b), gemm_tolerance(DType::Float, 8)));
}

TEST(AddmmOut, ScalesSelfForAnEmptySum) {
  PTERON_REQUIRE_CUDA();
  const HostTensor self = round_to(HostTensor::random({4}, 3), DType::Float);
  TensorPtr a = poisoned({3, 0}, DType::Float), b = poisoned({0, 4}, DType::Float);
  TensorPtr bias = to_device(self, DType::Float), out = poisoned({3, 4}, DType::Float);
  ASSERT_EQ(addmm(out, bias, a, b, 2.0), kAotiSuccess) << shim_error();
  HostTensor expected = expand(self, 3, 4);
  for (double& value : expected.values) value *= 2;
  EXPECT_TRUE(close_to(to_host(*out), expected, 1e-6));
}

TEST(AddmmOut, WritesAColumnMajorOut) {
  PTERON_REQUIRE_CUDA();
  const DType dtype = DType::Float;
  const HostTensor a = round_to(HostTensor::random({24, 40}, 3), dtype);
  const HostTensor b = round_to(HostTensor::random({40, 56}, 4), dtype);
  const HostTensor bias = round_to(HostTensor::random({56}, 5), dtype);
  TensorPtr x = to_device(a, dtype), w = to_device(b, dtype), c = to_device(bias, dtype);
  for (const std::vector<int64_t>& strides : {std::vector<int64_t>{1, 24}, {112, 2}}) {
    TensorPtr out = poisoned({24, 56}, dtype, strides);
    ASSERT_EQ(addmm(out, c, x, w), kAotiSuccess) << shim_error();
    HostTensor expected = matmul(a, b);
    for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] += bias.values[i % 56];
    EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 40)));
  }
}

}  // namespace
}  // namespace pteron::cuda::testing
