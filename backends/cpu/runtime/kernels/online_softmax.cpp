#include "pteron/backends/cpu/runtime/kernels/online_softmax.h"

#include <cstring>
#include <limits>

namespace pteron::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

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

// Columns `first` to `first` + kLanes.
template <int kLanes>
inline __attribute__((always_inline)) void softmax_lanes(float* x, int64_t rows, int64_t width,
                                                         float* maximum, float* sum,
                                                         float* factor) {
  float most[kLanes], total[kLanes];
  for (int l = 0; l < kLanes; ++l) most[l] = maximum[l];
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = x + i * width;
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) most[l] = row[l] > most[l] ? row[l] : most[l];
  }
#pragma omp simd
  for (int l = 0; l < kLanes; ++l) {
    // Of -infinity alone, or with NaN, which the maximum ignores: 0 instead.
    const float base = most[l] == kMinusInfinity ? 0.0f : most[l];
    factor[l] = exponential(maximum[l] - base);
    maximum[l] = most[l];
    most[l] = base;
    total[l] = sum[l] * factor[l];
  }
  for (int64_t i = 0; i < rows; ++i) {
    float* row = x + i * width;
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      row[l] = exponential(row[l] - most[l]);
      total[l] += row[l];
    }
  }
  for (int l = 0; l < kLanes; ++l) sum[l] = total[l];
}

inline __attribute__((always_inline)) float wide(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, of two to the even one; a NaN to one of its kind.
inline __attribute__((always_inline)) uint16_t narrow(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((x == x ? rounded : bits | 0x400000) >> 16);
}

struct Functions {
  float (*max_of)(const float* x, int64_t n, float least);
  float (*exponentials)(float* x, int64_t n, float base);
  void (*multiply)(float* x, int64_t n, float factor);
  void (*add)(float* x, int64_t n, const float* terms);
  void (*from_bfloat16)(const uint16_t* from, int64_t n, float* to);
  void (*to_bfloat16)(const float* from, int64_t n, uint16_t* to);
  void (*interleave)(const uint16_t* even, const uint16_t* odd, int64_t n, uint32_t* to);
  void (*softmax_columns)(float* x, int64_t rows, int64_t width, float* maximum, float* sum,
                          float* factor);
  void (*multiply_columns)(float* x, int64_t rows, int64_t width, const float* factors);
};

// The same loops, compiled for one instruction set.
#define PTERON_FUNCTIONS(suffix, ...)                                                              \
  __VA_ARGS__ float max_of_##suffix(const float* x, int64_t n, float least) {                      \
    float found = least;                                                                           \
    _Pragma("omp simd reduction(max : found)") for (int64_t i = 0; i < n; ++i) {                   \
      found = x[i] > found ? x[i] : found;                                                         \
    }                                                                                              \
    return found;                                                                                  \
  }                                                                                                \
  __VA_ARGS__ float exponentials_##suffix(float* x, int64_t n, float base) {                       \
    float sum = 0;                                                                                 \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; ++i) {                       \
      x[i] = exponential(x[i] - base);                                                             \
      sum += x[i];                                                                                 \
    }                                                                                              \
    return sum;                                                                                    \
  }                                                                                                \
  __VA_ARGS__ void multiply_##suffix(float* x, int64_t n, float factor) {                          \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) x[i] *= factor;                            \
  }                                                                                                \
  __VA_ARGS__ void add_##suffix(float* x, int64_t n, const float* terms) {                         \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) x[i] += terms[i];                          \
  }                                                                                                \
  __VA_ARGS__ void from_bfloat16_##suffix(const uint16_t* from, int64_t n, float* to) {            \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) to[i] = wide(from[i]);                     \
  }                                                                                                \
  __VA_ARGS__ void to_bfloat16_##suffix(const float* from, int64_t n, uint16_t* to) {              \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) to[i] = narrow(from[i]);                   \
  }                                                                                                \
  __VA_ARGS__ void interleave_##suffix(const uint16_t* even, const uint16_t* odd, int64_t n,       \
                                       uint32_t* to) {                                             \
    if (!odd) {                                                                                    \
      for (int64_t i = 0; i < n; ++i) to[i] = even[i];                                             \
      return;                                                                                      \
    }                                                                                              \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) {                                          \
      to[i] = even[i] | static_cast<uint32_t>(odd[i]) << 16;                                       \
    }                                                                                              \
  }                                                                                                \
  __VA_ARGS__ void softmax_columns_##suffix(float* x, int64_t rows, int64_t width, float* maximum, \
                                            float* sum, float* factor) {                           \
    int64_t l = 0;                                                                                 \
    for (; l + 16 <= width; l += 16)                                                               \
      softmax_lanes<16>(x + l, rows, width, maximum + l, sum + l, factor + l);                     \
    for (; l < width; l += 8)                                                                      \
      softmax_lanes<8>(x + l, rows, width, maximum + l, sum + l, factor + l);                      \
  }                                                                                                \
  __VA_ARGS__ void multiply_columns_##suffix(float* x, int64_t rows, int64_t width,                \
                                             const float* factors) {                               \
    for (int64_t i = 0; i < rows; ++i, x += width) {                                               \
      _Pragma("omp simd") for (int64_t l = 0; l < width; ++l) x[l] *= factors[l];                  \
    }                                                                                              \
  }                                                                                                \
  constexpr Functions k_##suffix{                                                                  \
      max_of_##suffix,     exponentials_##suffix,    multiply_##suffix,                            \
      add_##suffix,        from_bfloat16_##suffix,   to_bfloat16_##suffix,                         \
      interleave_##suffix, softmax_columns_##suffix, multiply_columns_##suffix};

PTERON_FUNCTIONS(v1)
PTERON_FUNCTIONS(v3, __attribute__((target("avx2,fma"))))
PTERON_FUNCTIONS(
    v4, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))))

const Functions& functions() {
  static const Functions& chosen =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl")
          ? k_v4
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? k_v3
                                                                        : k_v1;
  return chosen;
}

}  // namespace

float max_of(const float* x, int64_t n, float least) { return functions().max_of(x, n, least); }

float exponentials(float* x, int64_t n, float base) { return functions().exponentials(x, n, base); }

void multiply(float* x, int64_t n, float factor) { functions().multiply(x, n, factor); }

void add(float* x, int64_t n, const float* terms) { functions().add(x, n, terms); }

void from_bfloat16(const uint16_t* from, int64_t n, float* to) {
  functions().from_bfloat16(from, n, to);
}

void to_bfloat16(const float* from, int64_t n, uint16_t* to) {
  functions().to_bfloat16(from, n, to);
}

void interleave(const uint16_t* even, const uint16_t* odd, int64_t n, uint32_t* to) {
  functions().interleave(even, odd, n, to);
}

void softmax_columns(float* x, int64_t rows, int64_t width, float* maximum, float* sum,
                     float* factor) {
  functions().softmax_columns(x, rows, width, maximum, sum, factor);
}

void multiply_columns(float* x, int64_t rows, int64_t width, const float* factors) {
  functions().multiply_columns(x, rows, width, factors);
}

}  // namespace pteron::cpu
