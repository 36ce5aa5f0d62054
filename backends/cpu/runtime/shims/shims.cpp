// The operators of shims.inc as C functions.
#define PTERON_DEVICE cpu
#define PTERON_DEVICE_TYPE CPU
#define PTERON_DEVICE_KERNELS cpu
#define PTERON_DEVICE_LIST "pteron/backends/cpu/runtime/shims/shims.inc"
#include "pteron/backends/aoti/ops/device.inc"
