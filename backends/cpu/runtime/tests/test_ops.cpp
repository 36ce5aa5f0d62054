// The CPU joins the suite of operators.
#include "pteron/backends/aoti/ops/tests/conformance.h"

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cpu, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"

namespace pteron::aoti::conformance {

DeviceShims device_shims() {
  return {Device{},
          {
#define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cpu, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"
          },
          nullptr};
}

}  // namespace pteron::aoti::conformance
