// Compiled with -mavx512f and the rest of x86-64-v4: 32 registers of 16 floats.
#include <immintrin.h>

#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"

namespace pteron::cpu {
namespace {

struct Register {
  static constexpr int kLanes = 16;
  __m512 value;

  static Register zero() { return {_mm512_setzero_ps()}; }
  static Register load(const float* from) { return {_mm512_loadu_ps(from)}; }
  // The first `count` lanes; the others are 0.
  static Register load(int32_t count, const float* from) {
    return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from)};
  }
  static Register broadcast(const float* from) { return {_mm512_set1_ps(*from)}; }
  void add_product(Register a, Register b) { value = _mm512_fmadd_ps(a.value, b.value, value); }
  static Register sum(Register a, Register b) { return {_mm512_add_ps(a.value, b.value)}; }
  static Register difference(Register a, Register b) { return {_mm512_sub_ps(a.value, b.value)}; }
  void add(Register other) { value = _mm512_add_ps(value, other.value); }
  // If one operand is NaN, these instructions return the second.
  void bound(Register least, Register most) {
    value =
        _mm512_maskz_min_ps(0xffff, most.value, _mm512_maskz_max_ps(0xffff, least.value, value));
  }
  bool has_nan() const { return _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q) != 0; }
  void store(float* to) const { _mm512_storeu_ps(to, value); }

  using Selection = __m512i;
  static Selection selection(const uint8_t* lanes) {
    return _mm512_maskz_cvtepu8_epi32(0xffff,
                                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)));
  }
  Register selected(Selection lanes) const {
    return {_mm512_maskz_permutexvar_ps(0xffff, lanes, value)};
  }
  // The first `count` of the selected lanes.
  void store(Selection lanes, int32_t count, float* to) const {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    _mm512_mask_storeu_ps(to, mask, _mm512_maskz_permutexvar_ps(mask, lanes, value));
  }
};

}  // namespace
}  // namespace pteron::cpu

#include "pteron/backends/cpu/runtime/kernels/convolution_tile.inc"
#include "pteron/backends/cpu/runtime/kernels/depthwise_row.inc"

namespace pteron::cpu {

const TileKernels& tile_kernels_avx512() {
  static constexpr TileKernels kernels = {Register::kLanes, {8, 8, 8, 8}, kTiles,
                                          depthwise_row,    winograd_in,  winograd_out};
  return kernels;
}

}  // namespace pteron::cpu
