// Vector math of AVX2 registers.
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_checks.h"

namespace pteron::cpu {

// libmvec promises 4, and libm's own error in the reference comes on top.
constexpr double kUlps = 4.5;

class F8 : public testing::Test {
 protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no avx2";
  }
};
class D4 : public F8 {};

namespace f8 {
using Lane = float;
using Vector = __m256;
#define VM(name, suffix) ptrn_v##name##f8##suffix
#define WIDTH F8
#define PAIR PairF8
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_cases.inc"

extern "C" Vector ptrn_vsinf8_u35(Vector);
extern "C" Vector ptrn_vcosf8_u35(Vector);
TEST_F(F8, Fast) {
  check_unary<Lane, Vector>([](Vector a) { return ptrn_vsinf8_u35(a); },
                            [](double a) { return std::sin(a); }, -30, 30, kUlps);
  check_unary<Lane, Vector>([](Vector a) { return ptrn_vcosf8_u35(a); },
                            [](double a) { return std::cos(a); }, -30, 30, kUlps);
}
}  // namespace f8

namespace d4 {
using Lane = double;
using Vector = __m256d;
#define VM(name, suffix) ptrn_v##name##d4##suffix
#define WIDTH D4
#define PAIR PairD4
#include "pteron/backends/cpu/runtime/vector_math/tests/vector_math_cases.inc"
}  // namespace d4

extern "C" float ptrn_vexpf_u10(float);

TEST(Scalar, Exp) { EXPECT_FLOAT_EQ(ptrn_vexpf_u10(1.5f), std::exp(1.5f)); }

}  // namespace pteron::cpu
