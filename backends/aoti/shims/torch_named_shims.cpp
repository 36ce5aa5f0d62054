// The shims of shims.inc under torch's names.
#include "pteron/backends/aoti/shims/torch_name.h"

#define AOTI_COMMON_SHIM(name, ...) PTERON_TORCH_NAME(name)
#define AOTI_CONSTANT_SHIM(name, ...) PTERON_TORCH_NAME(name)
#include "pteron/backends/aoti/shims/shims.inc"
