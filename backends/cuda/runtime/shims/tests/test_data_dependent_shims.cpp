// What CUDA's shims do about indices that are outside, of which they tell nobody, and about results
// whose size depends on data, during a capture.
#include <gtest/gtest.h>

#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"

namespace pteron::cuda::testing {
namespace {

using aoti::AtenTensorHandle;
using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

TEST(Index, OutsideReadsZeroAndWritesNothing) {
  PTERON_REQUIRE_CUDA();
  TensorPtr input = to_device({{3}, {1, 2, 3}}, DType::Float),
            values = to_device({{4}, {10, 20, 30, 40}}, DType::Float),
            numbers = to_device({{4}, {2, 3, -4, 0}}, DType::Long);
  const AtenTensorHandle index = numbers.get();
  const AtenTensorHandle* indices[] = {&index};
  SlimTensor* out = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_index_Tensor(input.get(), indices, 1, &out), kAotiSuccess);
  TensorPtr read(out);
  EXPECT_TRUE(equal_to(to_host(*read), {{4}, {3, 0, 0, 1}}));
  ASSERT_EQ(ptrn_torch_cuda_index_put(input.get(), indices, 1, values.get(), 0, &out),
            kAotiSuccess);
  TensorPtr put(out);
  EXPECT_TRUE(equal_to(to_host(*put), {{3}, {40, 2, 10}}));
}

TEST(Nonzero, RefusesACapture) {
  PTERON_REQUIRE_CUDA();
  TensorPtr input = to_device(HostTensor::random({64}, 3), DType::Float);
  const Stream stream;
  const auto guard = stream.make_current();
  ASSERT_TRUE(guard.ok());
  SlimTensor* out = nullptr;
  stream.capture(cudaStreamCaptureModeThreadLocal, [&] {
    EXPECT_EQ(ptrn_torch_cuda_nonzero(input.get(), &out), kAotiFailure);
    EXPECT_NE(shim_error().find("captured"), std::string::npos) << shim_error();
  });
  EXPECT_EQ(out, nullptr);
}

}  // namespace
}  // namespace pteron::cuda::testing
