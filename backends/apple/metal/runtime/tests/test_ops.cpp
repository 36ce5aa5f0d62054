// Metal, on the recording device, joins the suite of operators.
#include <memory>

#include "pteron/backends/aoti/ops/tests/conformance.h"
#include "pteron/backends/apple/metal/runtime/testing/recording_gpu.h"

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(mps, name, __VA_ARGS__)
#include "pteron/backends/apple/metal/runtime/shims/shims.inc"

namespace pteron::aoti::conformance {

DeviceShims device_shims() {
  metal::register_gpu(std::make_unique<metal::RecordingGpu>());
  return {Device{DeviceType::Metal, 0},
          {
#define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(mps, name, __VA_ARGS__)
#include "pteron/backends/apple/metal/runtime/shims/shims.inc"
          },
          nullptr,
          {"float64", "complex128"}};
}

}  // namespace pteron::aoti::conformance
