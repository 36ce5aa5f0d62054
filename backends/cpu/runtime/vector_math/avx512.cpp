// Vector math of AVX-512 registers: 16 float32, 8 float64. Compiled with -mavx512f.
#include "pteron/backends/cpu/runtime/vector_math/vector_math.h"

namespace pteron::cpu {

namespace f16 {
using Lane = float;
using Vector = __m512;
#define PTERON_VM(name, suffix) ptrn_v##name##f16##suffix
#define PTERON_MVEC1(name) _ZGVeN16v_##name##f
#define PTERON_MVEC2(name) _ZGVeN16vv_##name##f
#define PTERON_LANE(name) ::name##f
#define PTERON_LANE_LGAMMA ::lgammaf_r
#define PTERON_VM_PAIR PairF16
#include "pteron/backends/cpu/runtime/vector_math/width.inc"

PTERON_SHIM_EXPORT Vector ptrn_vsinf16_u35(Vector a) { return _ZGVeN16v_sinf(a); }
PTERON_SHIM_EXPORT Vector ptrn_vcosf16_u35(Vector a) { return _ZGVeN16v_cosf(a); }
}  // namespace f16

namespace d8 {
using Lane = double;
using Vector = __m512d;
#define PTERON_VM(name, suffix) ptrn_v##name##d8##suffix
#define PTERON_MVEC1(name) _ZGVeN8v_##name
#define PTERON_MVEC2(name) _ZGVeN8vv_##name
#define PTERON_LANE(name) ::name
#define PTERON_LANE_LGAMMA ::lgamma_r
#define PTERON_VM_PAIR PairD8
#include "pteron/backends/cpu/runtime/vector_math/width.inc"
}  // namespace d8

}  // namespace pteron::cpu
