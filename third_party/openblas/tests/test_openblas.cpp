// The wheel's headers and library fit together, and its symbols carry their prefix.

#include <gtest/gtest.h>

#include <array>

#include "cblas.h"

namespace {

// c[m, n] = sum over k of a[m, k] * b[k, n], row-major.
TEST(OpenBlas, MultipliesMatrices) {
  const std::array<float, 6> a = {1, 2, 3, 4, 5, 6};                     // [2, 3]
  const std::array<float, 12> b = {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1};  // [3, 4]
  std::array<float, 8> c{};                                              // [2, 4]
  scipy_cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 4, 3, 1.0F, a.data(), 3, b.data(),
                    4, 0.0F, c.data(), 4);
  EXPECT_EQ(c, (std::array<float, 8>{1, 2, 3, 6, 4, 5, 6, 15}));
}

}  // namespace
