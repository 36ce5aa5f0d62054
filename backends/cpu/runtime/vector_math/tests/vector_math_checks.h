// Vector math against libm, lane by lane.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"

// name, suffix of Sleef's name, range of inputs
// clang-format off: one a line
#define UNARY_FUNCTIONS(X) \
  X(acos, _u10, -1, 1) \
  X(acosh, _u10, 1, 1e4) \
  X(asin, _u10, -1, 1) \
  X(asinh, _u10, -1e4, 1e4) \
  X(atan, _u10, -1e3, 1e3) \
  X(atanh, _u10, -1, 1) \
  X(cos, _u10, -30, 30) \
  X(cosh, _u10, -20, 20) \
  X(erf, _u10, -4, 4) \
  X(erfc, _u15, -4, 4) \
  X(exp, _u10, -80, 80) \
  X(exp2, _u10, -100, 100) \
  X(expm1, _u10, -20, 20) \
  X(lgamma, _u10, 2.5, 50) \
  X(log, _u10, 0, 1e6) \
  X(log10, _u10, 0, 1e6) \
  X(log1p, _u10, -1, 1e6) \
  X(log2, _u10, 0, 1e6) \
  X(sin, _u10, -30, 30) \
  X(sinh, _u10, -20, 20) \
  X(tan, _u10, -1.5, 1.5) \
  X(tanh, _u10, -8, 8)
// clang-format on
#define BINARY_FUNCTIONS(X) \
  X(atan2, _u10) X(copysign, ) X(fmod, ) X(hypot, _u05) X(nextafter, ) X(pow, _u10)

namespace pteron::cpu {

// Distance of two values in ULP; 0 for two NaN.
template <typename Lane>
double ulps(Lane found, double wanted) {
  const auto rounded = static_cast<Lane>(wanted);
  if (std::isnan(found) && std::isnan(rounded)) return 0;
  if (found == rounded) return 0;
  if (std::isinf(rounded) || std::isnan(rounded) || std::isnan(found)) return 1e30;
  const Lane magnitude = std::max(std::abs(rounded), std::numeric_limits<Lane>::min());
  const Lane step = std::nextafter(magnitude, std::numeric_limits<Lane>::infinity()) - magnitude;
  return std::abs(static_cast<double>(found) - wanted) / static_cast<double>(step);
}

template <typename Lane, typename Vector, typename Function, typename Reference>
void check_unary(Function function, Reference reference, double low, double high, double most) {
  constexpr int kLanes = sizeof(Vector) / sizeof(Lane);
  std::mt19937 random(20);
  std::uniform_real_distribution<Lane> distribution(static_cast<Lane>(low),
                                                    static_cast<Lane>(high));
  for (int round = 0; round < 500; ++round) {
    Lane in[kLanes], out[kLanes];
    for (Lane& lane : in) lane = distribution(random);
    if (round == 0) in[0] = std::numeric_limits<Lane>::quiet_NaN();
    Vector vector;
    std::memcpy(&vector, in, sizeof(vector));
    vector = function(vector);
    std::memcpy(out, &vector, sizeof(vector));
    for (int i = 0; i < kLanes; ++i) {
      ASSERT_LE(ulps(out[i], reference(static_cast<double>(in[i]))), most)
          << "lane " << i << " of " << in[i] << ": " << out[i];
    }
  }
}

template <typename Lane, typename Vector, typename Function, typename Reference>
void check_binary(Function function, Reference reference, double most) {
  constexpr int kLanes = sizeof(Vector) / sizeof(Lane);
  std::mt19937 random(21);
  std::uniform_real_distribution<Lane> distribution(Lane(0.1), Lane(20));
  for (int round = 0; round < 500; ++round) {
    Lane a[kLanes], b[kLanes], out[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      a[i] = distribution(random);
      b[i] = distribution(random) / 3;
    }
    Vector x, y;
    std::memcpy(&x, a, sizeof(x));
    std::memcpy(&y, b, sizeof(y));
    x = function(x, y);
    std::memcpy(out, &x, sizeof(x));
    for (int i = 0; i < kLanes; ++i) {
      ASSERT_LE(ulps(out[i], static_cast<double>(reference(a[i], b[i]))), most)
          << "lane " << i << " of " << a[i] << ", " << b[i] << ": " << out[i];
    }
  }
}

}  // namespace pteron::cpu
