// Registers the portable kernels. Linked with alwayslink.
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron::kernels {
namespace {

const Kernel kPortableKernels[] = {
#define PTERON_KERNEL(name, ...) {#name, __VA_ARGS__},
#include "pteron/runtime/kernel/kernels.inc"
#undef PTERON_KERNEL
};

[[maybe_unused]] const bool kRegistered = register_kernels(kPortableKernels).ok();

}  // namespace
}  // namespace pteron::kernels
