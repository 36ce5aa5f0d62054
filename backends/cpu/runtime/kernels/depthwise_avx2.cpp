// Compiled with -mavx2 -mfma.
#define PTERON_DEPTHWISE_NAME depthwise_plane_avx2
#include "backends/cpu/runtime/kernels/depthwise_plane.inc"
