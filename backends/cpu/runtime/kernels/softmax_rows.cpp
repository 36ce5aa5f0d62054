#include "pteron/backends/cpu/runtime/kernels/softmax_rows.h"

#include <cstring>

namespace pteron::cpu {
namespace {

// 2^n (1 + r + ... + r^6 / 720) with x = n ln 2 + r, |r| <= ln 2 / 2.
inline __attribute__((always_inline)) float exponential(float x) {
  constexpr float kLeast = -87.0f, kLog2E = 1.44269504f, kRound = 12582912.0f;  // 1.5 * 2^23
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  const float bounded = x < kLeast ? kLeast : x;
  const float shifted = bounded * kLog2E + kRound, n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float sum = 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = static_cast<int32_t>((static_cast<uint32_t>(bits) + 127u) << 23);
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < kLeast ? 0.0f : sum * power;
}

struct Functions {
  float (*max_of)(const float* x, int64_t n, float least);
  float (*exponentials)(float* x, int64_t n, float base);
  void (*multiply)(float* x, int64_t n, float factor);
};

// The same loops, compiled for one instruction set.
#define PTERON_FUNCTIONS(suffix, ...)                                            \
  __VA_ARGS__ float max_of_##suffix(const float* x, int64_t n, float least) {    \
    float found = least;                                                         \
    _Pragma("omp simd reduction(max : found)") for (int64_t i = 0; i < n; ++i) { \
      found = x[i] > found ? x[i] : found;                                       \
    }                                                                            \
    return found;                                                                \
  }                                                                              \
  __VA_ARGS__ float exponentials_##suffix(float* x, int64_t n, float base) {     \
    float sum = 0;                                                               \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; ++i) {     \
      x[i] = exponential(x[i] - base);                                           \
      sum += x[i];                                                               \
    }                                                                            \
    return sum;                                                                  \
  }                                                                              \
  __VA_ARGS__ void multiply_##suffix(float* x, int64_t n, float factor) {        \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) x[i] *= factor;          \
  }                                                                              \
  constexpr Functions k_##suffix{max_of_##suffix, exponentials_##suffix, multiply_##suffix};

PTERON_FUNCTIONS(v1)
PTERON_FUNCTIONS(v3, __attribute__((target("avx2,fma"))))
PTERON_FUNCTIONS(v4, __attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))))

const Functions& functions() {
  static const Functions& chosen =
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? k_v4
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? k_v3
                                                                               : k_v1;
  return chosen;
}

}  // namespace

float max_of(const float* x, int64_t n, float least) { return functions().max_of(x, n, least); }

float exponentials(float* x, int64_t n, float base) { return functions().exponentials(x, n, base); }

void multiply(float* x, int64_t n, float factor) { functions().multiply(x, n, factor); }

}  // namespace pteron::cpu
