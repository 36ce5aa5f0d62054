// The cuBLAS layout of a strided matrix, without copying.
//
//   // (rows, cols) = (8, 1024), rows 1088 elements apart
//   std::optional<MatrixLayout> layout = matrix_layout(8, 1024, 1088, 1);   // {1088, false}
//   if (!layout) copy_to_contiguous();
//
// Sizes and strides are in elements. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace pteron::cuda {

struct MatrixLayout {
  int64_t leading_dimension;  // elements between neighbouring rows (or columns, if transposed)
  bool transposed;            // columns are contiguous instead of rows
};

// Row-major or column-major with a leading dimension, or nullopt if neither stride is 1 (a strided
// slice, an expanded operand). The stride of a dimension of size 1 is arbitrary, so every vector
// with a positive stride has a layout.
inline std::optional<MatrixLayout> matrix_layout(int64_t rows, int64_t cols, int64_t row_stride,
                                                 int64_t col_stride) {
  // cuBLAS requires a leading dimension of at least the contiguous extent, and at least 1.
  if ((col_stride == 1 || cols <= 1) && (rows <= 1 || row_stride >= std::max<int64_t>(cols, 1))) {
    return MatrixLayout{rows <= 1 ? std::max<int64_t>(cols, 1) : row_stride, false};
  }
  if ((row_stride == 1 || rows <= 1) && (cols <= 1 || col_stride >= std::max<int64_t>(rows, 1))) {
    return MatrixLayout{cols <= 1 ? std::max<int64_t>(rows, 1) : col_stride, true};
  }
  return std::nullopt;
}

}  // namespace pteron::cuda
