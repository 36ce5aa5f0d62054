// The shims of shims.inc under torch's names.
#include "pteron/backends/aoti/shims/torch_name.h"

#define AOTI_COMMON_SHIM(name, ...) PTERON_TORCH_NAME(name)
#define AOTI_SHIM(name, ...) PTERON_TORCH_NAME(cuda_##name)
#include "pteron/backends/cuda/runtime/shims/shims.inc"
