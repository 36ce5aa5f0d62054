// What micro-GEMMs of compiled models call (backends/aoti/inductor/packed_micro_gemms.py).
#include <cstdint>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/cpu/runtime/kernels/amx.h"

// A product of bfloat16 on AMX, as PairProduct has it. False: nothing was computed, since there is no
// AMX.
PTERON_AOTI_SHIM(bool, cpu_multiply_pairs)
(const void* left, int64_t left_stride, const void* right, int64_t right_stride, float* out,
 int64_t out_stride, int64_t rows, int64_t columns, int64_t terms, bool accumulates) {
  using namespace pteron::cpu;
  if (!amx_is_usable()) return false;
  multiply_pairs_on_amx({rows, columns, terms, static_cast<const uint16_t*>(left), left_stride,
                         static_cast<const uint16_t*>(right), right_stride, out, out_stride,
                         accumulates});
  return true;
}
