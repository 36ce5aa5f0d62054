// A float matrix, transposed and padded.
//
//   transpose({data, rows, cols, row_stride, 1}, /*width=*/48, out);   // out is [cols, 48]
#pragma once

#include <cstdint>
#include <cstring>

#include "pteron/backends/cpu/runtime/kernels/gemm.h"

namespace pteron::cpu {

// out[j * width + i] is element (i, j) of `in`, which has at most `width` rows; 0 for the others.
inline void transpose(const Matrix<const float>& in, int64_t width, float* out) {
  constexpr int64_t kSide = 4;  // of blocks
  using Four = float __attribute__((vector_size(16)));
  int64_t i = 0;
  for (; in.col_stride == 1 && i + kSide <= in.rows; i += kSide) {
    const float* from = in.data + i * in.row_stride;
    int64_t j = 0;
    for (; j + kSide <= in.cols; j += kSide) {
      Four a, b, c, d;
      std::memcpy(&a, from + j, sizeof a);
      std::memcpy(&b, from + in.row_stride + j, sizeof b);
      std::memcpy(&c, from + 2 * in.row_stride + j, sizeof c);
      std::memcpy(&d, from + 3 * in.row_stride + j, sizeof d);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Four columns[kSide] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                                   __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                                   __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5),
                                   __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
      for (int64_t l = 0; l < kSide; ++l) {
        std::memcpy(out + (j + l) * width + i, &columns[l], sizeof columns[l]);
      }
    }
    for (; j < in.cols; ++j) {
      for (int64_t l = 0; l < kSide; ++l) out[j * width + i + l] = from[l * in.row_stride + j];
    }
  }
  int64_t done = 0;
  if (in.rows == 3 && width == 3 && in.col_stride == 1) {  // red, green, and blue
    for (; done + kSide <= in.cols; done += kSide, out += kSide * width) {
      Four a, b, c;
      std::memcpy(&a, in.data + done, sizeof a);
      std::memcpy(&b, in.data + in.row_stride + done, sizeof b);
      std::memcpy(&c, in.data + 2 * in.row_stride + done, sizeof c);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Four bc = __builtin_shufflevector(b, c, 1, 5, 2, 6);
      const Four ab3 = __builtin_shufflevector(a, b, 3, 7, 3, 7);
      const Four pixels[] = {__builtin_shufflevector(ab, c, 0, 1, 4, 2),
                             __builtin_shufflevector(bc, a, 0, 1, 6, 2),
                             __builtin_shufflevector(c, ab3, 2, 4, 5, 3)};
      std::memcpy(out, pixels, sizeof pixels);
    }
  }
  for (; i < width; ++i) {
    const float* from = in.data + i * in.row_stride;
    for (int64_t j = done; j < in.cols; ++j) {
      out[(j - done) * width + i] = i < in.rows ? from[j * in.col_stride] : 0;
    }
  }
}

}  // namespace pteron::cpu
