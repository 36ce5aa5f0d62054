// Products of bfloat16 on AMX against the definition in double precision. Of int8: test_gemm_int8.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/amx.h"

namespace pteron::cpu {
namespace {

uint16_t as_bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

float as_float(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Operands end where their memory does, so that AddressSanitizer finds what is read behind it.
void check(int64_t rows, int64_t terms, int64_t columns, bool accumulates) {
  SCOPED_TRACE(std::to_string(rows) + ", " + std::to_string(terms) + ", " +
               std::to_string(columns) + (accumulates ? ", added" : ""));
  constexpr float kUntouched = 77;
  const int64_t left_stride = terms + 6, out_stride = columns + 3;
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> left((rows - 1) * left_stride + terms), right(terms * columns);
  for (uint16_t& x : left) x = as_bfloat16(normal(generator));
  for (uint16_t& x : right) x = as_bfloat16(normal(generator));
  std::vector<float> out((rows - 1) * out_stride + columns, kUntouched);
  multiply_pairs_on_amx({rows, columns, terms, left.data(), left_stride, right.data(), columns,
                         out.data(), out_stride, accumulates});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double sum = accumulates ? kUntouched : 0, size = std::abs(sum);
      for (int64_t k = 0; k < terms; ++k) {
        const double product = double{as_float(left[r * left_stride + k])} *
                               as_float(right[k / 2 * 2 * columns + 2 * c + k % 2]);
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(out[r * out_stride + c], sum, 3e-7 * size) << r << ", " << c;
    }
    for (int64_t c = columns; r + 1 < rows && c < out_stride; ++c) {
      ASSERT_EQ(out[r * out_stride + c], kUntouched);
    }
  }
}

TEST(MultiplyPairsOnAmx, IsTheDefinition) {
  if (!amx_is_usable()) GTEST_SKIP() << "this machine, or its system, has no AMX";
  for (const int64_t rows : {1, 15, 16, 17, 31, 32, 33, 100}) {
    for (const int64_t terms : {2, 30, 32, 34, 64, 318}) {
      for (const int64_t columns : {16, 32, 48}) {
        for (const bool accumulates : {false, true}) check(rows, terms, columns, accumulates);
      }
    }
  }
}

// Infinities and NaN reach their rows and columns alone, also past zeros that fill tiles.
TEST(MultiplyPairsOnAmx, WhatIsNotFiniteStaysWhereItBelongs) {
  if (!amx_is_usable()) GTEST_SKIP() << "this machine, or its system, has no AMX";
  constexpr int64_t kRows = 40, kTerms = 38, kColumns = 48;
  std::vector<uint16_t> left(kRows * kTerms, as_bfloat16(1)),
      right(kTerms * kColumns, as_bfloat16(1));
  left[20 * kTerms + 37] = as_bfloat16(INFINITY);
  right[2 * 33] = as_bfloat16(NAN);  // term 0, column 33
  std::vector<float> out(kRows * kColumns);
  multiply_pairs_on_amx({kRows, kColumns, kTerms, left.data(), kTerms, right.data(), kColumns,
                         out.data(), kColumns, false});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const float found = out[r * kColumns + c];
      if (c == 33) {
        ASSERT_TRUE(std::isnan(found)) << r;
      } else {
        ASSERT_EQ(found, r == 20 ? INFINITY : 38.0f) << r << ", " << c;
      }
    }
  }
}

}  // namespace
}  // namespace pteron::cpu
