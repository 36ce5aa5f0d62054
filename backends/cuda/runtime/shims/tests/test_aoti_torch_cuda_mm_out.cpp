// mm_out: out = self @ mat2.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

AOTITorchError mm(const TensorPtr& out, const TensorPtr& a, const TensorPtr& b) {
  return ptrn_torch_cuda_mm_out(out.get(), a.get(), b.get());
}

// ---- contract: nothing of this needs a GPU ----

TEST(MmOutContract, RefusesNullHandles) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(ptrn_torch_cuda_mm_out(nullptr, a.get(), b.get()), kAotiFailure);
  EXPECT_NE(shim_error().find("out is null"), std::string::npos) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_mm_out(out.get(), nullptr, b.get()), kAotiFailure);
  EXPECT_NE(shim_error().find("self is null"), std::string::npos) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_mm_out(out.get(), a.get(), nullptr), kAotiFailure);
  EXPECT_NE(shim_error().find("mat2 is null"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesUndefinedTensors) {
  auto undefined = std::make_unique<SlimTensor>();
  TensorPtr b = pretend_cuda({3, 4}, DType::Float), out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(mm(out, undefined, b), kAotiFailure);
  EXPECT_NE(shim_error().find("self is undefined"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesTensorsOnTheCpu) {
  const int64_t sizes[] = {2, 3};
  Result<TensorPtr> cpu = slim::make_tensor(sizes, DType::Float);
  ASSERT_TRUE(cpu.ok());
  TensorPtr b = pretend_cuda({3, 4}, DType::Float), out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(mm(out, *cpu, b), kAotiFailure);
  EXPECT_NE(shim_error().find("self is on the CPU"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesTwoDevices) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), out = pretend_cuda({2, 4}, DType::Float);
  TensorPtr b = pretend_cuda({3, 4}, DType::Float, {}, 1);
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("cuda:1"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesOtherRanks) {
  TensorPtr a = pretend_cuda({2, 3, 1}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("expected 2 dimensions"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesOtherDtypes) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Long), b = pretend_cuda({3, 4}, DType::Long);
  TensorPtr out = pretend_cuda({2, 4}, DType::Long);
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("int64"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesMixedDtypes) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Half);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float);
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("one dtype"), std::string::npos) << shim_error();
}

TEST(MmOutContract, SaysShapesThatDoNotFit) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), out = pretend_cuda({2, 4}, DType::Float);
  TensorPtr b = pretend_cuda({5, 4}, DType::Float);
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("float32[2, 3]"), std::string::npos) << shim_error();
  EXPECT_NE(shim_error().find("float32[5, 4]"), std::string::npos) << shim_error();
}

TEST(MmOutContract, RefusesAnOutThatRepeatsElements) {
  TensorPtr a = pretend_cuda({2, 3}, DType::Float), b = pretend_cuda({3, 4}, DType::Float);
  TensorPtr out = pretend_cuda({2, 4}, DType::Float, {0, 1});
  EXPECT_EQ(mm(out, a, b), kAotiFailure);
  EXPECT_NE(shim_error().find("cannot be written"), std::string::npos) << shim_error();
}

// ---- numbers: against float64 on the CPU ----

struct Case {
  DType dtype;
  int64_t m, k, n;
};

class MmOutNumeric : public ::testing::TestWithParam<Case> {};

TEST_P(MmOutNumeric, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  const auto [dtype, m, k, n] = GetParam();
  const HostTensor a = round_to(HostTensor::random({m, k}, 1), dtype);
  const HostTensor b = round_to(HostTensor::random({k, n}, 2), dtype);
  TensorPtr x = to_device(a, dtype), w = to_device(b, dtype), out = poisoned({m, n}, dtype);
  ASSERT_EQ(mm(out, x, w), kAotiSuccess) << shim_error();
  EXPECT_TRUE(close_to(to_host(*out), matmul(a, b), gemm_tolerance(dtype, k)));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType dtype : {DType::BFloat16, DType::Half, DType::Float, DType::Double}) {
    for (auto [m, k, n] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                              {1, 64, 48},
                                                              {48, 64, 1},
                                                              {33, 1, 17},
                                                              {8, 1024, 96},
                                                              {17, 31, 13},
                                                              {128, 256, 192},
                                                              {3, 5, 7}}) {
      all.push_back({dtype, m, k, n});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sizes, MmOutNumeric, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return std::string(slim::name_of(info.param.dtype)) + "_" +
                                  std::to_string(info.param.m) + "_" +
                                  std::to_string(info.param.k) + "_" + std::to_string(info.param.n);
                         });

struct Layout {
  const char* name;
  std::vector<int64_t> a, b, out;  // strides for (24, 40) @ (40, 56)
};

class MmOutLayout : public ::testing::TestWithParam<Layout> {};

TEST_P(MmOutLayout, TakesAnyStrides) {
  PTERON_REQUIRE_CUDA();
  const Layout& layout = GetParam();
  for (DType dtype : {DType::BFloat16, DType::Float}) {
    const HostTensor a = round_to(HostTensor::random({24, 40}, 3), dtype);
    const HostTensor b = round_to(HostTensor::random({40, 56}, 4), dtype);
    TensorPtr x = to_device(a, dtype, layout.a), w = to_device(b, dtype, layout.b);
    TensorPtr out = poisoned({24, 56}, dtype, layout.out);
    TensorPtr before = poisoned({24, 56}, dtype, layout.out);
    ASSERT_EQ(mm(out, x, w), kAotiSuccess) << shim_error();
    // Read back, since repeated rows hold the last one written.
    const HostTensor expected = matmul(to_host(*x), to_host(*w));
    EXPECT_TRUE(close_to(to_host(*out), expected, gemm_tolerance(dtype, 40)));
    // Padding keeps its poison.
    std::vector<unsigned char> bytes = storage_bytes(*out), untouched = storage_bytes(*before);
    std::vector<bool> written(bytes.size(), false);
    for (int64_t i = 0; i < 24; ++i) {
      for (int64_t j = 0; j < 56; ++j) {
        const size_t at = static_cast<size_t>(i * out->stride(0) + j * out->stride(1));
        for (size_t b0 = 0; b0 < out->item_size(); ++b0) written[at * out->item_size() + b0] = true;
      }
    }
    size_t spoilt = 0;
    for (size_t i = 0; i < bytes.size(); ++i) spoilt += !written[i] && bytes[i] != untouched[i];
    EXPECT_EQ(spoilt, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strides, MmOutLayout,
    ::testing::Values(Layout{"row_major", {40, 1}, {56, 1}, {56, 1}},
                      Layout{"weight_transposed", {40, 1}, {1, 40}, {56, 1}},
                      Layout{"activation_transposed", {1, 24}, {56, 1}, {56, 1}},
                      Layout{"both_transposed", {1, 24}, {1, 40}, {56, 1}},
                      Layout{"padded", {48, 1}, {64, 1}, {72, 1}},
                      Layout{"padded_transposed", {1, 32}, {1, 48}, {64, 1}},
                      Layout{"odd_padding", {43, 1}, {59, 1}, {61, 1}},
                      Layout{"out_column_major", {40, 1}, {56, 1}, {1, 24}},
                      Layout{"out_column_major_padded", {40, 1}, {1, 40}, {1, 27}},
                      Layout{"neither_contiguous", {80, 2}, {112, 2}, {112, 2}},
                      Layout{"row_repeated", {0, 1}, {56, 1}, {56, 1}}),
    [](const ::testing::TestParamInfo<Layout>& info) { return info.param.name; });

TEST(MmOut, LeavesAnEmptyOutAlone) {
  PTERON_REQUIRE_CUDA();
  TensorPtr a = poisoned({0, 8}, DType::Float), b = poisoned({8, 4}, DType::Float);
  TensorPtr out = poisoned({0, 4}, DType::Float);
  EXPECT_EQ(mm(out, a, b), kAotiSuccess) << shim_error();
}

TEST(MmOut, GivesZerosForAnEmptySum) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::BFloat16, DType::Float, DType::Double}) {
    TensorPtr a = poisoned({3, 0}, dtype), b = poisoned({0, 4}, dtype);
    TensorPtr out = poisoned({3, 4}, dtype);
    ASSERT_EQ(mm(out, a, b), kAotiSuccess) << shim_error();
    EXPECT_TRUE(equal_to(to_host(*out), HostTensor::zeros({3, 4})));
  }
}

TEST(MmOut, DoesNotRoundFloat32ToTf32) {
  PTERON_REQUIRE_CUDA();
  // TF32 keeps 10 bits: the error would be some 1e-4.
  const HostTensor a = round_to(HostTensor::random({256, 512}, 5), DType::Float);
  const HostTensor b = round_to(HostTensor::random({512, 256}, 6), DType::Float);
  TensorPtr x = to_device(a, DType::Float), w = to_device(b, DType::Float);
  TensorPtr out = poisoned({256, 256}, DType::Float);
  ASSERT_EQ(mm(out, x, w), kAotiSuccess) << shim_error();
  EXPECT_TRUE(close_to(to_host(*out), matmul(a, b), 2e-6));
}

TEST(MmOut, RunsOnTheCurrentStream) {
  PTERON_REQUIRE_CUDA();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    Result<slim::CudaStreamGuard> guard = slim::CudaStreamGuard::make(stream, 0);
    ASSERT_TRUE(guard.ok()) << guard.error().message();
    const HostTensor a = round_to(HostTensor::random({64, 64}, 7), DType::BFloat16);
    TensorPtr x = to_device(a, DType::BFloat16), out = poisoned({64, 64}, DType::BFloat16);
    ASSERT_EQ(mm(out, x, x), kAotiSuccess) << shim_error();  // makes the handle and workspace
    // A capture records only what goes to this stream, and breaks if anything synchronises.
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(mm(out, x, x), kAotiSuccess) << shim_error();
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    size_t nodes = 0;
    ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_GE(nodes, 1u);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(MmOut, GivesEveryThreadTheSameBits) {
  PTERON_REQUIRE_CUDA();
  constexpr int kThreads = 8, kCalls = 200;
  const HostTensor a = round_to(HostTensor::random({96, 128}, 8), DType::BFloat16);
  const HostTensor b = round_to(HostTensor::random({128, 64}, 9), DType::BFloat16);
  TensorPtr x = to_device(a, DType::BFloat16), w = to_device(b, DType::BFloat16);
  std::vector<HostTensor> results(kThreads);
  std::vector<std::string> errors(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      cudaStream_t stream = nullptr;
      if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
      {
        auto guard = slim::CudaStreamGuard::make(stream, 0);
        TensorPtr out = poisoned({96, 64}, DType::BFloat16);
        for (int i = 0; i < kCalls; ++i) {
          if (mm(out, x, w) != kAotiSuccess) errors[static_cast<size_t>(t)] = shim_error();
        }
        results[static_cast<size_t>(t)] = to_host(*out);
      }
      (void)cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(errors[static_cast<size_t>(t)], "");
    EXPECT_TRUE(equal_to(results[static_cast<size_t>(t)], results[0])) << "thread " << t;
  }
  EXPECT_TRUE(close_to(results[0], matmul(a, b), gemm_tolerance(DType::BFloat16, 128)));
}

}  // namespace
}  // namespace pteron::cuda::testing
