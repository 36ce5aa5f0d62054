// For any machine.
#define PTERON_DEPTHWISE_NAME depthwise_plane_baseline
#include "backends/cpu/runtime/kernels/depthwise_plane.inc"
