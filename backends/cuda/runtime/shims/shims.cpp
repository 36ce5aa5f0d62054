// The operators of shims.inc as C functions.
#define PTERON_DEVICE cuda
#define PTERON_DEVICE_TYPE CUDA
#define PTERON_DEVICE_KERNELS cuda
#define PTERON_DEVICE_LIST "pteron/backends/cuda/runtime/shims/shims.inc"
#include "pteron/backends/aoti/ops/device.inc"
