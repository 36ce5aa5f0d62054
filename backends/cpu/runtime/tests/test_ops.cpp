// The CPU joins the suite of operators.
#include "pteron/backends/aoti/ops/conformance/conformance.h"

#define AOTI_COMMON_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_SHIM(cpu, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"
#undef AOTI_SHIM

namespace pteron::aoti::conformance {

DeviceShims device_shims() {
  return {Device{},
          {
#define AOTI_SHIM(name, since, ...) PTERON_BIND_SHIM(cpu, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"
#undef AOTI_SHIM
          },
          nullptr};
}

}  // namespace pteron::aoti::conformance
