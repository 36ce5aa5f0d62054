// Who computes convolutions; what they compute is tested by the suite of operators.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"
#include "pteron/backends/cuda/runtime/shims/convolution.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

// float32[1, 4, n, n], 4 channels, kernels of 3 x 3, no padding.
Convolution problem(int64_t n) {
  Convolution conv;
  conv.batch = 1;
  conv.in_channels = conv.out_channels = 4;
  conv.in_sizes[0] = conv.in_sizes[1] = n;
  conv.out_sizes[0] = conv.out_sizes[1] = n - 2;
  conv.kernel[0] = conv.kernel[1] = 3;
  return conv;
}

// Operands for it, and what comes out of them.
struct Case {
  explicit Case(const Convolution& conv, bool bias = false, bool residual = false)
      : conv(conv),
        input(HostTensor::random({1, 4, conv.in_sizes[0], conv.in_sizes[1]}, 1)),
        weight(HostTensor::random({4, 4, 3, 3}, 2)),
        x(to_device(input, DType::Float)),
        w(to_device(weight, DType::Float)),
        b(to_device(HostTensor::random({4}, 3), DType::Float)),
        r(to_device(HostTensor::random({1, 4, n(), n()}, 4), DType::Float)),
        out(poisoned({1, 4, n(), n()}, DType::Float)) {
    operands.input = x->data();
    operands.weight = w->data();
    if (bias) operands.bias = b->data();
    if (residual) operands.residual = r->data();
    operands.out = out->data();
  }

  int64_t n() const { return conv.out_sizes[0]; }

  Error run(ConvolutionLibrary library = ConvolutionLibrary::kCudnn) {
    return convolve(conv, operands, 0, nullptr, library);
  }

  HostTensor expected() const {
    HostTensor result = HostTensor::zeros({1, 4, n(), n()});
    const HostTensor bias = to_host(*b), residual = to_host(*r);
    const int64_t side = conv.in_sizes[0];
    for (int64_t i = 0; i < result.numel(); ++i) {
      const int64_t o = i / (n() * n()), at = i / n() % n() * side + i % n();
      double sum = (operands.bias ? bias.values[static_cast<size_t>(o)] : 0) +
                   (operands.residual ? residual.values[static_cast<size_t>(i)] : 0);
      for (int64_t k = 0; k < 36; ++k) {
        const int64_t from = k / 9 * side * side + at + k / 3 % 3 * side + k % 3;
        sum += weight.values[static_cast<size_t>(o * 36 + k)] *
               input.values[static_cast<size_t>(from)];
      }
      result.values[static_cast<size_t>(i)] = conv.relu && sum < 0 ? 0 : sum;
    }
    return result;
  }

  Convolution conv;
  HostTensor input, weight;
  TensorPtr x, w, b, r, out;
  ConvolutionOperands operands;
};

#define PTERON_REQUIRE_CUDNN()                                              \
  PTERON_REQUIRE_CUDA();                                                    \
  if (Result<const Cudnn*> dnn = Cudnn::get(); !dnn.ok()) {                 \
    GTEST_SKIP() << "this machine has no cuDNN: " << dnn.error().message(); \
  }

TEST(Convolution, IsRunByTheLibraryWhereThereIsOne) {
  PTERON_REQUIRE_CUDNN();
  Case test(problem(6));
  const Error error = test.run();
  ASSERT_TRUE(error.ok()) << error.message();
  EXPECT_TRUE(close_to(to_host(*test.out), test.expected(), 1e-5));
}

TEST(Convolution, AddsBiasAndResidualBeforeRelu) {
  PTERON_REQUIRE_CUDA();
  for (const auto library : {ConvolutionLibrary::kAuto, ConvolutionLibrary::kUnfold}) {
    for (int flags = 0; flags < 8; ++flags) {
      Convolution conv = problem(9);
      conv.relu = flags & 1;
      Case test(conv, flags & 2, flags & 4);
      const Error error = test.run(library);
      ASSERT_TRUE(error.ok()) << error.message();
      EXPECT_TRUE(close_to(to_host(*test.out), test.expected(), 1e-5)) << "flags " << flags;
    }
  }
}

TEST(Convolution, MakesOnePlanForEachSize) {
  PTERON_REQUIRE_CUDNN();
  const size_t before = convolution_plans_kept();
  for (int64_t n : {20, 21, 20, 21, 20}) ASSERT_TRUE(Case(problem(n)).run().ok());
  EXPECT_EQ(convolution_plans_kept(), before + 2);
}

TEST(Convolution, LeavesPlansToTheNextThread) {
  PTERON_REQUIRE_CUDNN();
  const auto plans_after_a_run = [] {
    size_t kept = 0;
    std::thread([&] {
      EXPECT_TRUE(Case(problem(22)).run().ok());
      kept = convolution_plans_kept();
    }).join();
    return kept;
  };
  const size_t first = plans_after_a_run();
  EXPECT_GE(first, 1u);
  EXPECT_EQ(plans_after_a_run(), first);
}

TEST(Convolution, IsRunByThreadsAtOnce) {
  PTERON_REQUIRE_CUDA();
  std::vector<std::thread> threads;
  std::vector<std::string> problems(4);
  for (std::string& problem_found : problems) {
    threads.emplace_back([&problem_found] {
      for (int i = 0; i < 50; ++i) {
        Case test(problem(10));
        const Error error = test.run(ConvolutionLibrary::kAuto);
        if (!error.ok()) problem_found = error.message();
        const auto close = close_to(to_host(*test.out), test.expected(), 1e-5);
        if (!close) problem_found = close.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& found : problems) EXPECT_EQ(found, "");
}

TEST(Convolution, TakesItsWorkspaceFromThePool) {
  PTERON_REQUIRE_CUDA();
  CachingPool* pool = CachingPool::create(0);
  ExecutionResources resources;
  resources.pool = pool;
  Case test(problem(40));
  ASSERT_TRUE(test.run(ConvolutionLibrary::kUnfold).ok());  // loads what is loaded once
  {
    const ExecutionScope scope(&resources);
    ASSERT_TRUE(test.run(ConvolutionLibrary::kAuto).ok());
    EXPECT_EQ(pool->in_use_nbytes(), 0u);
    const size_t reserved = pool->reserved_nbytes();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(test.run(ConvolutionLibrary::kAuto).ok());
    EXPECT_EQ(pool->reserved_nbytes(), reserved);
    ASSERT_TRUE(test.run(ConvolutionLibrary::kUnfold).ok());
    EXPECT_GT(pool->reserved_nbytes(), 0u);
  }
  pool->release();
}

// What a graph of CUDA records is run again; nothing that it may not hold happens meanwhile.
TEST(Convolution, CanBeCaptured) {
  PTERON_REQUIRE_CUDNN();
  Case test(problem(16));
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_TRUE(convolve(test.conv, test.operands, 0, stream).ok());
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const Error error = convolve(test.conv, test.operands, 0, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_TRUE(error.ok()) << error.message();
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaMemset(test.out->data(), 0xff, test.out->nbytes()), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_TRUE(close_to(to_host(*test.out), test.expected(), 1e-5));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace pteron::cuda::testing
