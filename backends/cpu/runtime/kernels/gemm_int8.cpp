// int8 GEMM: blocks of 32 columns of b are packed as groups of rows, whose products with a register
// of an instruction set are summed by one instruction.
// backends/cpu/decisions/2026-11-26-int8-matmul.md
#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "pteron/backends/cpu/runtime/kernels/amx.h"
#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/kernels/transpose.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pteron::cpu {
namespace {

constexpr int64_t kProductsPerThread = 1 << 16;

template <typename T>
void multiply_any(Matrix<const T> a, Matrix<const int8_t> b, Matrix<int32_t> out) {
  constexpr int64_t kWidth = 64;
  const int64_t work = out.cols * std::max<int64_t>(a.cols, 1);
  parallel_for(out.rows, kProductsPerThread / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j0 = 0; j0 < out.cols; j0 += kWidth) {
        const int64_t width = std::min(kWidth, out.cols - j0);
        uint32_t sums[kWidth] = {};
        for (int64_t k = 0; k < a.cols; ++k) {
          const auto left = static_cast<uint32_t>(a.data[i * a.row_stride + k * a.col_stride]);
          const int8_t* right = b.data + k * b.row_stride + j0 * b.col_stride;
          for (int64_t j = 0; j < width; ++j) {
            sums[j] += left * static_cast<uint32_t>(right[j * b.col_stride]);
          }
        }
        for (int64_t j = 0; j < width; ++j) {
          out.data[i * out.row_stride + (j0 + j) * out.col_stride] = static_cast<int32_t>(sums[j]);
        }
      }
    }
  });
}

#if defined(__x86_64__)

constexpr int64_t kColumns = 32;

// AMX multiplies tiles of 16 rows of 64 terms, of int8 or uint8 and int8.
template <typename T>
struct Amx {
  using Left = T;
  using Right = int8_t;
  using Registers = AmxRegisters;
  static constexpr int64_t kGroup = 4, kDepth = kAmxRowBytes, kRows = 2 * kAmxRows;
  static constexpr int32_t kOffset = 0;

  // Fewer rows than `kCount` are computed, too; what is behind them is memory of ours.
  template <int kCount>
  static void tile(const Left* a, int64_t stride, const Right* b, int64_t groups, int32_t* sums) {
    multiply_int8_on_amx(a, stride, std::is_signed_v<T>, b, groups, sums);
  }
};

struct NoRegisters {
  NoRegisters() {}  // not trivial, so that it is no unused variable
};

// AVX512-VNNI multiplies groups of four uint8 and int8. An int8 a is stored with 128 added, which
// `kOffset` times the sum of a column takes back.
template <typename T>
struct Vnni {
  using Left = uint8_t;
  using Right = int8_t;
  using Registers = NoRegisters;
  static constexpr int64_t kGroup = 4, kDepth = kGroup, kRows = 12;
  static constexpr int32_t kOffset = std::is_signed_v<T> ? 128 : 0;

  template <int kCount>
  __attribute__((target("avx512f,avx512vnni"))) static void tile(const Left* a, int64_t stride,
                                                                 const Right* b, int64_t groups,
                                                                 int32_t* sums) {
    __m512i acc[kCount][2];
    for (auto& row : acc) row[0] = row[1] = _mm512_setzero_si512();
    for (int64_t k = 0; k < groups; ++k) {
      const __m512i low = _mm512_loadu_si512(b + k * 128);
      const __m512i high = _mm512_loadu_si512(b + k * 128 + 64);
      for (int i = 0; i < kCount; ++i) {
        int32_t four;
        std::memcpy(&four, a + i * stride + 4 * k, 4);
        const __m512i left = _mm512_set1_epi32(four);
        acc[i][0] = _mm512_dpbusd_epi32(acc[i][0], left, low);
        acc[i][1] = _mm512_dpbusd_epi32(acc[i][1], left, high);
      }
    }
    for (int i = 0; i < kCount; ++i) {
      _mm512_storeu_si512(sums + i * kColumns, acc[i][0]);
      _mm512_storeu_si512(sums + i * kColumns + 16, acc[i][1]);
    }
  }
};

// AVX2 multiplies pairs of int16.
struct Avx2 {
  using Left = int16_t;
  using Right = int16_t;
  using Registers = NoRegisters;
  static constexpr int64_t kGroup = 2, kDepth = kGroup, kRows = 2;
  static constexpr int32_t kOffset = 0;

  template <int kCount>
  __attribute__((target("avx2"))) static void tile(const Left* a, int64_t stride, const Right* b,
                                                   int64_t groups, int32_t* sums) {
    __m256i acc[kCount][4];
    for (auto& row : acc) {
      for (__m256i& each : row) each = _mm256_setzero_si256();
    }
    for (int64_t k = 0; k < groups; ++k) {
      for (int j = 0; j < 4; ++j) {
        const auto* from = reinterpret_cast<const __m256i*>(b + k * 64 + j * 16);
        const __m256i right = _mm256_loadu_si256(from);
        for (int i = 0; i < kCount; ++i) {
          int32_t two;
          std::memcpy(&two, a + i * stride + 2 * k, 4);
          acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(_mm256_set1_epi32(two), right));
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      for (int j = 0; j < 4; ++j) {
        auto* to = reinterpret_cast<__m256i*>(sums + i * kColumns + j * 8);
        _mm256_storeu_si256(to, acc[i][j]);
      }
    }
  }
};

template <typename Isa, int kCount>
void tiles(int64_t count, const typename Isa::Left* a, int64_t stride, const typename Isa::Right* b,
           int64_t groups, int32_t* sums) {
  if (count == kCount || kCount == 2 * kAmxRows) {
    Isa::template tile<kCount>(a, stride, b, groups, sums);
  } else if constexpr (kCount > 1) {
    tiles<Isa, kCount - 1>(count, a, stride, b, groups, sums);
  }
}

template <typename Isa, typename T>
void multiply(Matrix<const T> a, Matrix<const int8_t> b, Matrix<int32_t> out) {
  using Left = typename Isa::Left;
  using Right = typename Isa::Right;
  const int64_t depth = (a.cols + Isa::kDepth - 1) / Isa::kDepth * Isa::kDepth;
  const int64_t groups = depth / Isa::kGroup;
  Scratch<Left> left((a.rows + Isa::kRows) * depth);
  const int64_t work = a.rows * a.cols * kColumns;
  parallel_for(a.rows, kProductsPerThread / a.cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = a.data + i * a.row_stride;
      Left* row = left.data() + i * depth;
      const auto convert = [](T x) { return static_cast<Left>(x + Isa::kOffset); };
      if (a.col_stride == 1) {
        std::transform(from, from + a.cols, row, convert);
      } else {
        for (int64_t k = 0; k < a.cols; ++k) row[k] = convert(from[k * a.col_stride]);
      }
      std::fill(row + a.cols, row + depth, 0);
    }
  });
  const int64_t blocks = (out.cols + kColumns - 1) / kColumns;
  parallel_for(blocks, kProductsPerThread / work, [&](int64_t begin, int64_t end) {
    Scratch<Right> right(depth * kColumns);
    Scratch<int8_t> gathered(b.row_stride == 1 ? 1 : a.cols);
    [[maybe_unused]] const typename Isa::Registers registers;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kColumns, width = std::min(kColumns, out.cols - first);
      uint32_t offsets[kColumns] = {};
      const int64_t done = a.cols / Isa::kGroup * Isa::kGroup;
      std::fill(right.data() + done * kColumns, right.data() + depth * kColumns, 0);
      // Groups of a transposed weight, whose columns are contiguous, are elements of a matrix.
      const bool of_groups = sizeof(Right) == 1 && b.row_stride == 1 && b.col_stride % 4 == 0 &&
                             reinterpret_cast<uintptr_t>(b.data) % 4 == 0;
      if (of_groups) {
        const auto* from = reinterpret_cast<const float*>(b.data + first * b.col_stride);
        transpose({from, width, done / 4, b.col_stride / 4, 1}, kColumns,
                  reinterpret_cast<float*>(right.data()));
      } else if (width < kColumns) {
        std::fill_n(right.data(), done * kColumns, 0);
      }
      for (int64_t j = 0; j < width; ++j) {
        const int8_t* column = b.data + (first + j) * b.col_stride;
        if (b.row_stride != 1) {
          for (int64_t k = 0; k < a.cols; ++k) gathered[k] = column[k * b.row_stride];
          column = gathered.data();
        }
        if (Isa::kOffset != 0) {
          offsets[j] = Isa::kOffset * std::accumulate(column, column + a.cols, uint32_t{0});
        }
        Right* to = right.data() + j * Isa::kGroup;
        for (int64_t k = of_groups ? done : 0; k < done; k += Isa::kGroup) {
          std::copy_n(column + k, Isa::kGroup, to + k * kColumns);
        }
        std::copy_n(column + done, a.cols - done, to + done * kColumns);
      }
      for (int64_t i = 0; i < out.rows; i += Isa::kRows) {
        int32_t sums[Isa::kRows * kColumns];
        const int64_t count = std::min(Isa::kRows, out.rows - i);
        tiles<Isa, Isa::kRows>(count, left.data() + i * depth, depth, right.data(), groups, sums);
        for (int64_t r = 0; r < count; ++r) {
          // Wraps as int32 does.
          const auto sum = [&](int64_t j) {
            return static_cast<int32_t>(static_cast<uint32_t>(sums[r * kColumns + j]) - offsets[j]);
          };
          int32_t* to = out.data + (i + r) * out.row_stride + first * out.col_stride;
          if (out.col_stride == 1) {
            for (int64_t j = 0; j < width; ++j) to[j] = sum(j);
          } else {
            for (int64_t j = 0; j < width; ++j) to[j * out.col_stride] = sum(j);
          }
        }
      }
    }
  });
}

#endif

}  // namespace

Int8Isa best_int8_isa() {
#if defined(__x86_64__)
  if (amx_is_usable()) return Int8Isa::kAmx;
  if (__builtin_cpu_supports("avx512vnni")) return Int8Isa::kAvx512Vnni;
  if (__builtin_cpu_supports("avx2")) return Int8Isa::kAvx2;
#endif
  return Int8Isa::kNone;
}

template <typename T>
void gemm_int8(Matrix<const T> a, Matrix<const int8_t> b, Matrix<int32_t> out, Int8Isa isa) {
  if (out.rows == 0 || out.cols == 0) return;
#if defined(__x86_64__)
  // A tile of few rows takes as long as a full one.
  const bool few = isa == Int8Isa::kAmx && a.rows < kAmxRows / 2;
  if (a.cols > 0 && isa == Int8Isa::kAmx && !few) return multiply<Amx<T>>(a, b, out);
  if (a.cols > 0 && (isa == Int8Isa::kAvx512Vnni || few)) return multiply<Vnni<T>>(a, b, out);
  if (a.cols > 0 && isa == Int8Isa::kAvx2) return multiply<Avx2>(a, b, out);
#endif
  multiply_any(a, b, out);
}

template void gemm_int8(Matrix<const int8_t>, Matrix<const int8_t>, Matrix<int32_t>, Int8Isa);
template void gemm_int8(Matrix<const uint8_t>, Matrix<const int8_t>, Matrix<int32_t>, Int8Isa);

}  // namespace pteron::cpu
