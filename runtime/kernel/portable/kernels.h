// The portable kernels, as C++ functions: one declaration for each function in kernels.inc.
#pragma once

#include "pteron/runtime/kernel/registry.h"

namespace pteron::kernels {

#define PTERON_KERNEL(name, ...) PTERON_DECLARE_KERNEL(__VA_ARGS__, )
#define PTERON_DECLARE_KERNEL(function, ...) \
  Error function(KernelContext& context, Span<EValue* const> arguments);
#include "pteron/runtime/kernel/kernels.inc"
#undef PTERON_DECLARE_KERNEL
#undef PTERON_KERNEL

}  // namespace pteron::kernels
