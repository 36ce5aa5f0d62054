#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"

namespace pteron::cpu {

const TileKernels* tile_kernels() {
  static const TileKernels* const kernels = []() -> const TileKernels* {
    if (__builtin_cpu_supports("x86-64-v4")) return &tile_kernels_avx512();
    if (__builtin_cpu_supports("x86-64-v3")) return &tile_kernels_avx2();
    return nullptr;
  }();
  return kernels;
}

}  // namespace pteron::cpu
