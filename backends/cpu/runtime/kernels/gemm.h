// GEMM: out = alpha * a @ b + beta * out.
//
//   Matrix<const float> a{data, rows, cols, row_stride, col_stride};
//   gemm(1.0, a, b, 0.0, out);
//
// a is [M, K], b is [K, N], out is [M, N]; any strides, in elements, but out must not overlap
// itself or an input. With beta 0 out is not read, so a NaN there has no effect. Types: float,
// double, Half, BFloat16 (accumulated in float) and integers (which wrap). Multithreaded if
// worthwhile. Thread-safe.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/numeric.h"

namespace pteron::cpu {

template <typename T>
struct Matrix {
  T* data;
  int64_t rows, cols;
  int64_t row_stride, col_stride;

  Matrix transposed() const { return {data, cols, rows, col_stride, row_stride}; }
  Matrix block(int64_t row, int64_t col, int64_t num_rows, int64_t num_cols) const {
    return {data + row * row_stride + col * col_stride, num_rows, num_cols, row_stride, col_stride};
  }
};

template <typename T>
void gemm(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out);

// Batched: `count` GEMMs, whose matrices are `a_step`, `b_step` and `out_step` elements apart.
template <typename T>
void gemm_batch(int64_t count, double alpha, Matrix<const T> a, int64_t a_step, Matrix<const T> b,
                int64_t b_step, double beta, Matrix<T> out, int64_t out_step);

// On the calling thread only.
template <typename T>
void gemm_serial(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out);

// Instruction sets of gemm_int8, each better than those before it.
enum class Int8Isa { kNone, kAvx2, kAvx512Vnni, kAmx };

// The best that the processor has.
Int8Isa best_int8_isa();

// int8 GEMM accumulated in int32; a may be uint8. `isa` must be one that the processor has.
template <typename T>
void gemm_int8(Matrix<const T> a, Matrix<const int8_t> b, Matrix<int32_t> out,
               Int8Isa isa = best_int8_isa());

}  // namespace pteron::cpu
