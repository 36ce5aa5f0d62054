// nonzero: coordinates in row-major order, laid out column by column.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
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

HostTensor reference(const HostTensor& x) {
  const auto dims = static_cast<int64_t>(x.sizes.size());
  HostTensor found{{0, dims}, {}};
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (x.values[static_cast<size_t>(i)] == 0) continue;
    ++found.sizes[0];
    std::vector<double> coordinates(x.sizes.size());
    int64_t rest = i;
    for (size_t d = x.sizes.size(); d-- > 0;) {
      coordinates[d] = static_cast<double>(rest % x.sizes[d]);
      rest /= x.sizes[d];
    }
    found.values.insert(found.values.end(), coordinates.begin(), coordinates.end());
  }
  return found;
}

// Small integers, half of them 0.
HostTensor sparse(std::vector<int64_t> sizes, uint64_t seed) {
  HostTensor host = HostTensor::random(std::move(sizes), seed);
  for (double& value : host.values) value = value < 0 ? 0 : std::floor(1 + 2 * value);
  return host;
}

TEST(NonzeroContract, RefusesBadArguments) {
  TensorPtr x = pretend_cuda({4, 5}, DType::Float), z = pretend_cuda({4}, DType::ComplexFloat);
  SlimTensor* out = nullptr;
  EXPECT_EQ(ptrn_torch_cuda_nonzero(nullptr, &out), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_nonzero(x.get(), nullptr), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_nonzero(z.get(), &out), kAotiFailure);
  EXPECT_NE(shim_error().find("complex64[4]"), std::string::npos) << shim_error();
  EXPECT_EQ(out, nullptr);
}

TEST(Nonzero, FindsAllInOrder) {
  PTERON_REQUIRE_CUDA();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1},
                                            {3000},
                                            {7, 65},
                                            {3, 50, 4},
                                            {2, 3, 4, 5},
                                            {100000},
                                            {0},
                                            {3, 0}}) {
    const HostTensor x = sparse(sizes, 1);
    for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16, DType::Long,
                        DType::Int, DType::Short, DType::Char, DType::Byte, DType::Bool}) {
      TensorPtr input = to_device(x, dtype);
      SlimTensor* out = nullptr;
      ASSERT_EQ(ptrn_torch_cuda_nonzero(input.get(), &out), kAotiSuccess) << shim_error();
      TensorPtr found(out);
      EXPECT_TRUE(equal_to(to_host(*found), reference(x))) << slim::name_of(dtype);
      EXPECT_EQ(found->dtype(), DType::Long);
      if (found->numel() > 0) {
        EXPECT_EQ(found->stride(0), 1);
        EXPECT_EQ(found->stride(1), found->size(0));
      }
    }
  }
}

TEST(Nonzero, ReadsStridesAndSmallNumbers) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x = sparse({6, 8}, 2);
  TensorPtr input = to_device(x, DType::Float, {1, 6});
  SlimTensor* out = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_nonzero(input.get(), &out), kAotiSuccess) << shim_error();
  TensorPtr found(out);
  EXPECT_TRUE(equal_to(to_host(*found), reference(x)));
  const double tiny = std::ldexp(1.0, -1060);  // 0 as a float32
  input = to_device({{3}, {tiny, -0.0, std::nan("")}}, DType::Double);
  ASSERT_EQ(ptrn_torch_cuda_nonzero(input.get(), &out), kAotiSuccess) << shim_error();
  TensorPtr second(out);
  EXPECT_TRUE(equal_to(to_host(*second), {{2, 1}, {0, 2}}));
}

TEST(Nonzero, RefusesACapture) {
  PTERON_REQUIRE_CUDA();
  TensorPtr input = to_device(sparse({64}, 3), DType::Float);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    auto guard = slim::CudaStreamGuard::make(stream, 0);
    ASSERT_TRUE(guard.ok());
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    SlimTensor* out = nullptr;
    EXPECT_EQ(ptrn_torch_cuda_nonzero(input.get(), &out), kAotiFailure);
    EXPECT_NE(shim_error().find("captured"), std::string::npos) << shim_error();
    EXPECT_EQ(out, nullptr);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    if (graph) (void)cudaGraphDestroy(graph);
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace pteron::cuda::testing
