// The operators of shims.inc as C functions.
#define PTERON_DEVICE mps
#define PTERON_DEVICE_TYPE Metal
#define PTERON_DEVICE_KERNELS metal
#define PTERON_DEVICE_LIST "pteron/backends/apple/metal/runtime/shims/shims.inc"
#include "pteron/backends/aoti/ops/device.inc"
