// Compiled with -mavx2, -mfma and the rest of x86-64-v3: 16 registers of 8 floats.
#include <immintrin.h>

#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"

namespace pteron::cpu {
namespace {

struct Register {
  static constexpr int kLanes = 8;
  __m256 value;

  static Register zero() { return {_mm256_setzero_ps()}; }
  static Register load(const float* from) { return {_mm256_loadu_ps(from)}; }
  // The first `count` lanes; the others are 0.
  static Register load(int32_t count, const float* from) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes))};
  }
  static Register broadcast(const float* from) { return {_mm256_broadcast_ss(from)}; }
  void add_product(Register a, Register b) { value = _mm256_fmadd_ps(a.value, b.value, value); }
  static Register sum(Register a, Register b) { return {_mm256_add_ps(a.value, b.value)}; }
  static Register difference(Register a, Register b) { return {_mm256_sub_ps(a.value, b.value)}; }
  void add(Register other) { value = _mm256_add_ps(value, other.value); }
  // If one operand is NaN, these instructions return the second.
  void bound(Register least, Register most) {
    value = _mm256_min_ps(most.value, _mm256_max_ps(least.value, value));
  }
  bool has_nan() const {
    return _mm256_movemask_ps(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)) != 0;
  }
  void store(float* to) const { _mm256_storeu_ps(to, value); }

  using Selection = __m256i;
  static Selection selection(const uint8_t* lanes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
  }
  Register selected(Selection lanes) const { return {_mm256_permutevar8x32_ps(value, lanes)}; }
  // The first `count` of the selected lanes. Masked stores are slow on some of these machines.
  void store(Selection lanes, int32_t count, float* to) const {
    float selected[kLanes];
    _mm256_storeu_ps(selected, _mm256_permutevar8x32_ps(value, lanes));
    for (int32_t i = 0; i < count; ++i) to[i] = selected[i];
  }
};

}  // namespace
}  // namespace pteron::cpu

#include "pteron/backends/cpu/runtime/kernels/convolution_tile.inc"
#include "pteron/backends/cpu/runtime/kernels/depthwise_row.inc"

namespace pteron::cpu {

const TileKernels& tile_kernels_avx2() {
  static constexpr TileKernels kernels = {Register::kLanes, {8, 8, 6, 4}, kTiles,
                                          depthwise_row,    winograd_in,  winograd_out};
  return kernels;
}

}  // namespace pteron::cpu
