// Products that may be recorded are launched as they were; others never are.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/kernels/tests/gemm_problem.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using testing::close_to;
using testing::equal_to;
using testing::gemm_tolerance;
using testing::HostTensor;
using testing::matmul;
using testing::poisoned;
using testing::problem_of;
using testing::round_to;
using testing::TensorPtr;
using testing::to_device;
using testing::to_host;

// Where the `index`-th of many outputs of `p` lies; the first is p.out.
GemmProblem with_output(const GemmProblem& p, int64_t index) {
  constexpr int64_t kApart = 1024;  // bytes; a multiple of every alignment
  GemmProblem other = p;
  other.out.data = static_cast<const char*>(p.out.data) + index * kApart;
  return other;
}

// Products at the same addresses, with other numbers at every call.
struct Product {
  int64_t m, k, n;
  bool bias;
};

class RecordedProduct : public ::testing::TestWithParam<Product> {};

TEST_P(RecordedProduct, MatchesFloat64AtEveryCall) {
  PTERON_REQUIRE_CUDA();
  const auto [m, k, n, has_bias] = GetParam();
  const DType dtype = DType::BFloat16;
  TensorPtr a = poisoned({m, k}, dtype), b = poisoned({k, n}, dtype), out = poisoned({m, n}, dtype);
  TensorPtr bias = poisoned({n}, dtype);
  GemmProblem p = problem_of(*a, *b, *out);
  p.record = true;
  if (has_bias) p.bias = bias->data();
  const auto fill = [](const TensorPtr& tensor, const TensorPtr& with) {
    ASSERT_EQ(cudaMemcpy(tensor->data(), with->data(), tensor->nbytes(), cudaMemcpyDeviceToDevice),
              cudaSuccess);
  };
  const GemmCounts before = gemm_counts();
  for (uint64_t call = 0; call < 5; ++call) {
    const HostTensor x = round_to(HostTensor::random({m, k}, 10 + call), dtype);
    const HostTensor w = round_to(HostTensor::random({k, n}, 20 + call), dtype);
    const HostTensor c = round_to(HostTensor::random({n}, 30 + call), dtype);
    fill(a, to_device(x, dtype));
    fill(b, to_device(w, dtype));
    fill(bias, to_device(c, dtype));
    fill(out, poisoned({m, n}, dtype));
    const Error error = gemm(p, 0, nullptr);
    ASSERT_TRUE(error.ok()) << error.message();
    HostTensor expected = matmul(x, w);
    for (int64_t i = 0; has_bias && i < m * n; ++i) {
      expected.values[static_cast<size_t>(i)] += c.values[static_cast<size_t>(i % n)];
    }
    EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, k))) << "call " << call;
  }
  EXPECT_EQ(gemm_counts().asked - before.asked, 2u);
  EXPECT_EQ(gemm_counts().recorded - before.recorded, 3u);
  // Another output is another call.
  TensorPtr elsewhere = poisoned({m, n}, dtype);
  p.out.data = elsewhere->data();
  ASSERT_TRUE(gemm(p, 0, nullptr).ok());
  EXPECT_EQ(gemm_counts().asked - before.asked, 3u);
  EXPECT_TRUE(equal_to(to_host(*elsewhere), to_host(*out)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, RecordedProduct,
                         ::testing::Values(Product{16, 64, 64, false}, Product{16, 64, 64, true},
                                           Product{96, 256, 512, false},
                                           Product{8, 4096, 1024, false},
                                           Product{8, 4096, 1024, true}));

TEST(RecordedProducts, AlphaAndBetaArePartOfACall) {
  PTERON_REQUIRE_CUDA();
  const DType dtype = DType::Float;
  const HostTensor x = round_to(HostTensor::random({32, 64}, 1), dtype);
  const HostTensor w = round_to(HostTensor::random({64, 48}, 2), dtype);
  const HostTensor c = round_to(HostTensor::random({32, 48}, 3), dtype);
  TensorPtr a = to_device(x, dtype), b = to_device(w, dtype), addend = to_device(c, dtype);
  TensorPtr out = poisoned({32, 48}, dtype);
  GemmProblem p = problem_of(*a, *b, *out);
  p.record = true;
  p.c = {addend->data(), {48, false}};
  const HostTensor product = matmul(x, w);
  for (int round = 0; round < 4; ++round) {
    for (const double scale : {1.0, 0.5, -2.0}) {
      p.alpha = scale;
      p.beta = 3.0 - scale;
      const Error error = gemm(p, 0, nullptr);
      ASSERT_TRUE(error.ok()) << error.message();
      HostTensor expected = product;
      for (size_t i = 0; i < expected.values.size(); ++i) {
        expected.values[i] = p.alpha * product.values[i] + p.beta * c.values[i];
      }
      EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 64)));
    }
  }
}

// A capture, by which matmuls are recorded, breaks threads that synchronize the device meanwhile.
TEST(RecordedProducts, WithoutRecordingOthersMayWaitForTheDevice) {
  PTERON_REQUIRE_CUDA();
  TensorPtr a = to_device(HostTensor::random({16, 64}, 1), DType::BFloat16);
  TensorPtr b = to_device(HostTensor::random({64, 32}, 2), DType::BFloat16);
  TensorPtr outs = poisoned({512, 512}, DType::BFloat16);
  GemmProblem p = problem_of(*a, *b, *outs);
  p.out.layout.leading_dimension = 32;
  std::atomic<bool> done{false};
  std::atomic<int> waits{0};
  cudaError_t worst = cudaSuccess;
  std::thread waiting([&] {
    for (; !done; ++waits) {
      if (const cudaError_t status = cudaDeviceSynchronize(); status != cudaSuccess) worst = status;
    }
  });
  while (waits == 0) std::this_thread::yield();
  const GemmCounts before = gemm_counts();
  for (int64_t index = 0; index < 512; ++index) {
    for (int time = 0; time < 3; ++time) {
      const Error error = gemm(with_output(p, index), 0, nullptr);
      EXPECT_TRUE(error.ok()) << error.message();
    }
  }
  done = true;
  waiting.join();
  EXPECT_EQ(worst, cudaSuccess) << cudaGetErrorName(worst);
  EXPECT_EQ(gemm_counts().asked - before.asked, 3 * 512u);
  EXPECT_EQ(gemm_counts().recorded, before.recorded);
}

// A decoder makes products of new sizes at every step.
TEST(RecordedProducts, AreForgottenBeyondABound) {
  PTERON_REQUIRE_CUDA();
  TensorPtr a = to_device(HostTensor::random({64, 16}, 1), DType::BFloat16);
  TensorPtr b = to_device(HostTensor::random({16, 8}, 2), DType::BFloat16);
  TensorPtr outs = poisoned({512, 512}, DType::BFloat16);
  std::thread([&] {  // a thread has recorded nothing when it begins
    GemmProblem p = problem_of(*a, *b, *outs);
    p.out.layout.leading_dimension = 8;
    p.record = true;
    const auto is_recorded = [&](const GemmProblem& problem) {
      const uint64_t recorded = gemm_counts().recorded;
      const Error error = gemm(problem, 0, nullptr);
      EXPECT_TRUE(error.ok()) << error.message();
      return gemm_counts().recorded > recorded;
    };
    p.m = 2;
    EXPECT_FALSE(is_recorded(p));
    EXPECT_FALSE(is_recorded(p));
    EXPECT_TRUE(is_recorded(p));
    size_t recorded = 1;
    GemmProblem other = p;
    for (other.m = 3; recorded < kMaxRecordedProducts; ++other.m) {
      for (int64_t index = 0; index < 256 && recorded < kMaxRecordedProducts; ++index, ++recorded) {
        ASSERT_FALSE(is_recorded(with_output(other, index)));
        if (recorded == kMaxRecordedProducts - 1) {
          EXPECT_TRUE(is_recorded(p)) << "forgotten before the bound";
        }
        ASSERT_FALSE(is_recorded(with_output(other, index)));
      }
    }
    EXPECT_FALSE(is_recorded(p)) << "kept beyond the bound";
    EXPECT_FALSE(is_recorded(p));
    EXPECT_TRUE(is_recorded(p));
  })
      .join();
}

}  // namespace
}  // namespace pteron::cuda
