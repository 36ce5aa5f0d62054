// Products on streams and threads; what they compute is tested by test_ops.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

using namespace aoti;

TEST(Products, RunOnTheCurrentStream) {
  PTERON_REQUIRE_CUDA();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    Result<slim::CudaStreamGuard> guard = slim::CudaStreamGuard::make(stream, 0);
    ASSERT_TRUE(guard.ok()) << guard.error().message();
    for (const auto& [from, to] :
         {std::pair(DType::BFloat16, DType::BFloat16), std::pair(DType::Char, DType::Int)}) {
      const HostTensor a = round_to(HostTensor::random({64, 64}, 7), from);
      TensorPtr x = to_device(a, from), w = to_device(a, from, {1, 64});
      TensorPtr out = poisoned({64, 64}, to);
      const auto call = to == DType::Int ? ptrn_torch_cuda__int_mm_out : ptrn_torch_cuda_mm_out;
      ASSERT_EQ(call(out.get(), x.get(), w.get()), kAotiSuccess) << shim_error();
      // The handle and the workspace exist by now. A capture records only what goes to this stream,
      // and breaks if anything synchronises.
      cudaGraph_t graph = nullptr;
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
      EXPECT_EQ(call(out.get(), x.get(), w.get()), kAotiSuccess) << shim_error();
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      size_t nodes = 0;
      ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
      EXPECT_GE(nodes, 1u);
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
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
      cudaStream_t stream = nullptr;
      if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
      {
        auto guard = slim::CudaStreamGuard::make(stream, 0);
        TensorPtr out = poisoned({96, 64}, DType::BFloat16);
        for (size_t i = 0; i < kCalls; ++i) {
          if (ptrn_torch_cuda_mm_out(out.get(), x.get(), w.get()) != kAotiSuccess) {
            errors[t] = shim_error();
          }
        }
        results[t] = to_host(*out);
      }
      (void)cudaStreamDestroy(stream);
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
