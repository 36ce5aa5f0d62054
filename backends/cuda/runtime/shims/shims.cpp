// The C functions of shims.inc.
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/cuda/runtime/shims/kernels.h"

#define AOTI_COMMON_SHIM(...)
#define CUDA_SHIM(...)
#define AOTI_SHIM(name, since, ...) PTERON_DEFINE_SHIM(cuda, CUDA, name, __VA_ARGS__)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
#undef AOTI_SHIM
#undef CUDA_SHIM
#undef AOTI_COMMON_SHIM
