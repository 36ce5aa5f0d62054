// Metal, on the recording device, joins the suite of common shims.
#include <memory>

#include "pteron/backends/aoti/runtime/tests/conformance/conformance.h"
#include "pteron/backends/apple/metal/runtime/testing/recording_gpu.h"

namespace pteron::aoti::conformance {

TestDevice test_device() {
  metal::register_gpu(std::make_unique<metal::RecordingGpu>());
  return {/*type=*/13, /*index=*/0, /*available=*/true, ""};
}

}  // namespace pteron::aoti::conformance
