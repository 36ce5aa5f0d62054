// Products on streams and threads; what they compute is tested by test_ops.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

using namespace aoti;

TEST(Products, RunOnTheCurrentStream) {
  PTERON_REQUIRE_CUDA();
  const Stream stream;
  const auto guard = stream.make_current();
  ASSERT_TRUE(guard.ok()) << guard.error().message();
  for (const auto& [from, to] :
       {std::pair(DType::BFloat16, DType::BFloat16), std::pair(DType::Char, DType::Int)}) {
    const HostTensor a = round_to(HostTensor::random({64, 64}, 7), from);
    TensorPtr x = to_device(a, from), w = to_device(a, from, {1, 64});
    TensorPtr out = poisoned({64, 64}, to);
    const auto call = to == DType::Int ? ptrn_torch_cuda__int_mm_out : ptrn_torch_cuda_mm_out;
    const auto multiply = [&] {
      EXPECT_EQ(call(out.get(), x.get(), w.get()), kAotiSuccess) << shim_error();
    };
    multiply();
    // The handle and the workspace exist by now.
    EXPECT_GE(stream.capture(cudaStreamCaptureModeRelaxed, multiply), 1u);
  }
}

TEST(Products, GiveEveryThreadTheSameBits) {
  PTERON_REQUIRE_CUDA();
  constexpr size_t kThreads = 8, kCalls = 200;
  const HostTensor a = round_to(HostTensor::random({96, 128}, 8), DType::BFloat16);
  const HostTensor b = round_to(HostTensor::random({128, 64}, 9), DType::BFloat16);
  TensorPtr x = to_device(a, DType::BFloat16), w = to_device(b, DType::BFloat16);
  std::vector<HostTensor> results(kThreads);
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Stream stream;
      const auto guard = stream.make_current();
      TensorPtr out = poisoned({96, 64}, DType::BFloat16);
      for (size_t i = 0; i < kCalls; ++i) {
        if (ptrn_torch_cuda_mm_out(out.get(), x.get(), w.get()) != kAotiSuccess) {
          errors[t] = shim_error();
        }
      }
      results[t] = to_host(*out);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(errors[t], "");
    EXPECT_TRUE(equal_to(results[t], results[0])) << "thread " << t;
  }
  EXPECT_TRUE(close_to(results[0], matmul(a, b), gemm_tolerance(DType::BFloat16, 128)));
}

}  // namespace
}  // namespace pteron::cuda::testing
