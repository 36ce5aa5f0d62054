// Vector math of AVX-512 registers.
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_checks.h"

namespace pteron::cpu {

// libmvec promises 4, and libm's own error in the reference comes on top.
constexpr double kUlps = 4.5;

class F16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this processor has no avx512f";
  }
};
class D8 : public F16 {};

namespace f16 {
using Lane = float;
using Vector = __m512;
#define VM(name, suffix) ptrn_v##name##f16##suffix
#define WIDTH F16
#define PAIR PairF16
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_cases.inc"

extern "C" Vector ptrn_vsinf16_u35(Vector);
extern "C" Vector ptrn_vcosf16_u35(Vector);
TEST_F(F16, Fast) {
  check_unary<Lane, Vector>([](Vector a) { return ptrn_vsinf16_u35(a); },
                            [](double a) { return std::sin(a); }, -30, 30, kUlps);
  check_unary<Lane, Vector>([](Vector a) { return ptrn_vcosf16_u35(a); },
                            [](double a) { return std::cos(a); }, -30, 30, kUlps);
}
}  // namespace f16

namespace d8 {
using Lane = double;
using Vector = __m512d;
#define VM(name, suffix) ptrn_v##name##d8##suffix
#define WIDTH D8
#define PAIR PairD8
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_cases.inc"
}  // namespace d8

}  // namespace pteron::cpu
