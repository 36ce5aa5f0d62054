// The C functions of shims.inc, and the table of the kernels that they call.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/cpu/runtime/shims/kernels.h"

namespace pteron::cpu {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = {
#define AOTI_KERNEL(name, Call) name,
#define AOTI_KERNEL_OF(name, type, parameters) name,
#define AOTI_HOST_KERNEL_OF AOTI_KERNEL_OF
#include "pteron/backends/aoti/ops/kernels.inc"
  };
  return kernels;
}

namespace {
[[maybe_unused]] const bool registered =
    (aoti::register_kernels(DeviceType::CPU, &kernels()), true);
}  // namespace

}  // namespace pteron::cpu

#define AOTI_COMMON_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DEFINE_SHIM(cpu, CPU, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef AOTI_COMMON_SHIM
