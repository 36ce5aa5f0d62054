// Who computes convolutions; what they compute is tested by the suite of operators.
#include <gtest/gtest.h>

#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/platform/cudnn.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

TEST(Convolution, IsRunByTheLibraryWhereThereIsOne) {
  PTERON_REQUIRE_CUDA();
  Result<const Cudnn*> dnn = Cudnn::get();
  if (!dnn.ok()) GTEST_SKIP() << "this machine has no cuDNN: " << dnn.error().message();
  Convolution conv;
  conv.batch = conv.in_channels = conv.out_channels = 1;
  conv.in_sizes[0] = conv.in_sizes[1] = 4;
  conv.out_sizes[0] = conv.out_sizes[1] = 2;
  conv.kernel[0] = conv.kernel[1] = 3;
  TensorPtr x = to_device(HostTensor::random({1, 1, 4, 4}, 1), DType::Float);
  TensorPtr w = to_device(HostTensor::random({1, 1, 3, 3}, 2), DType::Float);
  TensorPtr out = poisoned({1, 1, 2, 2}, DType::Float);
  const Error error =
      convolve(conv, x->data(), w->data(), out->data(), 0, nullptr, ConvolutionLibrary::kCudnn);
  EXPECT_TRUE(error.ok()) << error.message();
}

}  // namespace
}  // namespace pteron::cuda::testing
