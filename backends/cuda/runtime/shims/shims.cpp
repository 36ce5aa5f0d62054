// The C functions of shims.inc, and the table of the kernels that they call.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/cuda/runtime/shims/kernels.h"

namespace pteron::cuda {

const aoti::Kernels& kernels() {
  static const aoti::Kernels kernels = {
#define AOTI_KERNEL(name, Call) name,
#define AOTI_KERNEL_OF(name, type, parameters) name,
#define AOTI_HOST_KERNEL_OF(...) nullptr,
#include "pteron/backends/aoti/ops/kernels.inc"
  };
  return kernels;
}

namespace {
[[maybe_unused]] const bool registered =
    (aoti::register_kernels(DeviceType::CUDA, &kernels()), true);
}  // namespace

}  // namespace pteron::cuda

#define AOTI_COMMON_SHIM(...)
#define CUDA_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DEFINE_SHIM(cuda, CUDA, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef CUDA_SHIM
#undef AOTI_COMMON_SHIM
