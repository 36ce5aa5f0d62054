// Vector math of AVX2 registers: 8 float32, 4 float64. Compiled with -mavx2 -mfma.
#include "pteron/backends/cpu/runtime/vector_math/vector_math.h"

namespace pteron::cpu {

namespace f8 {
using Lane = float;
using Vector = __m256;
#define PTERON_VM(name, suffix) ptrn_v##name##f8##suffix
#define PTERON_MVEC1(name) _ZGVdN8v_##name##f
#define PTERON_MVEC2(name) _ZGVdN8vv_##name##f
#define PTERON_LANE(name) ::name##f
#define PTERON_LANE_LGAMMA ::lgammaf_r
#define PTERON_VM_PAIR PairF8
#include "pteron/backends/cpu/runtime/vector_math/width.inc"

PTERON_SHIM_EXPORT Vector ptrn_vsinf8_u35(Vector a) { return _ZGVdN8v_sinf(a); }
PTERON_SHIM_EXPORT Vector ptrn_vcosf8_u35(Vector a) { return _ZGVdN8v_cosf(a); }
}  // namespace f8

namespace d4 {
using Lane = double;
using Vector = __m256d;
#define PTERON_VM(name, suffix) ptrn_v##name##d4##suffix
#define PTERON_MVEC1(name) _ZGVdN4v_##name
#define PTERON_MVEC2(name) _ZGVdN4vv_##name
#define PTERON_LANE(name) ::name
#define PTERON_LANE_LGAMMA ::lgamma_r
#define PTERON_VM_PAIR PairD4
#include "pteron/backends/cpu/runtime/vector_math/width.inc"
}  // namespace d4

}  // namespace pteron::cpu
