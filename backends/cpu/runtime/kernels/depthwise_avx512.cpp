// Compiled with -mavx512f and the rest of x86-64-v4.
#define PTERON_DEPTHWISE_NAME depthwise_plane_avx512
#include "backends/cpu/runtime/kernels/depthwise_plane.inc"
