// CUDA joins the suite of operators.
#include <cstdlib>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/ops/conformance/conformance.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

#define AOTI_COMMON_SHIM(...)
#define CUDA_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_SHIM

namespace pteron::aoti::conformance {

DeviceShims device_shims() {
  return {Device{DeviceType::CUDA, 0},
          {
#define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cuda, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_SHIM
          },
          cuda::device_count() > 0 ? nullptr : "there is no CUDA device"};
}

}  // namespace pteron::aoti::conformance

int main(int argc, char** argv) {
#ifdef PTERON_TESTED_SHIM
  // The cases of the shims that match, unless the command line says otherwise.
  GTEST_FLAG_SET(filter, "*/" PTERON_TESTED_SHIM "_*:Random." PTERON_TESTED_SHIM "_*");
#endif
#ifdef PTERON_WITHOUT_CUDNN
  setenv("PTERON_CUDNN", "off", 1);
#endif
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
