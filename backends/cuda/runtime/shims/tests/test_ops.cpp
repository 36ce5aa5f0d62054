// CUDA joins the suite of operators.
#include <cstdlib>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/ops/tests/conformance.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"

namespace pteron::aoti::conformance {

DeviceShims device_shims() {
  return {Device{DeviceType::CUDA, 0},
          {
#define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
          },
          cuda::device_count() > 0 ? nullptr : "there is no CUDA device"};
}

}  // namespace pteron::aoti::conformance

namespace pteron::cuda {

// Of the test (with_cudnn.cpp).
extern const bool kWithCudnn;

}  // namespace pteron::cuda

int main(int argc, char** argv) {
  if (!pteron::cuda::kWithCudnn) {
    setenv("PTERON_CUDNN", "off", 1);
    // The cases of shims that may use it, unless the command line says otherwise.
    GTEST_FLAG_SET(filter, "*/convolution_*:*/scaled_dot_product_attention_*");
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
