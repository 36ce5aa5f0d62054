// The C functions of shims.inc.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/cpu/runtime/shims/kernels.h"

#define AOTI_COMMON_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DEFINE_SHIM(cpu, CPU, name, __VA_ARGS__)
#include "pteron/backends/cpu/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef AOTI_COMMON_SHIM
