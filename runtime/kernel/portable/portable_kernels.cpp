// Registers the portable kernels. Linked whole, so that they are there without anybody's asking.
#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron {
namespace {

const Kernel kPortableKernels[] = {
#define PTERON_KERNEL(name, function) {#name, kernels::function},
#include "pteron/runtime/kernel/kernels.inc"
#undef PTERON_KERNEL
};

[[maybe_unused]] const bool kRegistered = register_kernels(kPortableKernels).ok();

}  // namespace
}  // namespace pteron
