// CUDA joins the suite of common shims, on device memory.
#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::aoti::conformance {

TestDevice test_device() {
  return {/*type=*/1, /*index=*/0, /*available=*/cuda::device_count() > 0,
          "there is no CUDA device"};
}

}  // namespace pteron::aoti::conformance
