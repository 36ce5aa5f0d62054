// int8 GEMM with each instruction set of this processor; extreme values, all layouts, odd sizes.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/gemm.h"

namespace pteron::cpu {
namespace {

std::vector<Int8Isa> instruction_sets() {
  std::vector<Int8Isa> sets{Int8Isa::kNone};
  for (const Int8Isa isa : {Int8Isa::kAvx2, Int8Isa::kAvx512Vnni, Int8Isa::kAmx}) {
    if (isa <= best_int8_isa()) sets.push_back(isa);
  }
  return sets;
}

// Of all bytes, the extreme ones often.
template <typename T>
std::vector<T> values(int64_t count, uint32_t seed) {
  std::vector<T> made(static_cast<size_t>(count));
  for (T& value : made) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<T>(seed % 3 ? seed >> 24 : (seed >> 8) % 2 ? 0x80 : 0x7f);
  }
  return made;
}

class GemmInt8 : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

template <typename T>
void check(int64_t m, int64_t k, int64_t n) {
  const std::vector<T> a = values<T>(m * k, 1);
  const std::vector<int8_t> b = values<int8_t>(k * n, 2);
  for (const bool by_columns : {false, true}) {
    const Matrix<const T> left =
        by_columns ? Matrix<const T>{a.data(), m, k, 1, m} : Matrix<const T>{a.data(), m, k, k, 1};
    const Matrix<const int8_t> right = by_columns ? Matrix<const int8_t>{b.data(), k, n, 1, k}
                                                  : Matrix<const int8_t>{b.data(), k, n, n, 1};
    for (const Int8Isa isa : instruction_sets()) {
      std::vector<int32_t> out(static_cast<size_t>(m * n), 77);
      gemm_int8<T>(left, right, {out.data(), m, n, n, 1}, isa);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          int32_t sum = 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += left.data[i * left.row_stride + l * left.col_stride] *
                   right.data[l * right.row_stride + j * right.col_stride];
          }
          ASSERT_EQ(out[static_cast<size_t>(i * n + j)], sum)
              << i << ", " << j << " by instruction set " << static_cast<int>(isa);
        }
      }
    }
  }
}

TEST_P(GemmInt8, OfInt8) { std::apply(check<int8_t>, GetParam()); }
TEST_P(GemmInt8, OfUint8) { std::apply(check<uint8_t>, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Sizes, GemmInt8,
                         testing::Values(std::tuple(1, 1, 1), std::tuple(1, 4, 32),
                                         std::tuple(13, 7, 33), std::tuple(12, 64, 64),
                                         std::tuple(25, 130, 95), std::tuple(3, 0, 5),
                                         std::tuple(0, 4, 4), std::tuple(200, 300, 70),
                                         std::tuple(65, 256, 96)));

}  // namespace
}  // namespace pteron::cpu
