#include <gtest/gtest.h>

#include "pteron/backends/cuda/runtime/kernels/matrix_layout.h"

namespace pteron::cuda {
namespace {

TEST(MatrixLayout, ReadsTheManual) {
  std::optional<MatrixLayout> layout = matrix_layout(8, 1024, 1088, 1);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->leading_dimension, 1088);
  EXPECT_FALSE(layout->transposed);
}

struct Case {
  int64_t rows, cols, row_stride, col_stride;
  int64_t leading_dimension;  // -1: no layout
  bool transposed;
};

class MatrixLayoutCases : public ::testing::TestWithParam<Case> {};

TEST_P(MatrixLayoutCases, IsAsExpected) {
  const Case& c = GetParam();
  std::optional<MatrixLayout> layout = matrix_layout(c.rows, c.cols, c.row_stride, c.col_stride);
  ASSERT_EQ(layout.has_value(), c.leading_dimension >= 0);
  if (!layout) return;
  EXPECT_EQ(layout->leading_dimension, c.leading_dimension);
  EXPECT_EQ(layout->transposed, c.transposed);
}

INSTANTIATE_TEST_SUITE_P(All, MatrixLayoutCases,
                         ::testing::Values(Case{3, 4, 4, 1, 4, false},    // row-major
                                           Case{3, 4, 1, 3, 3, true},     // column-major
                                           Case{3, 4, 1, 8, 8, true},     // padded
                                           Case{3, 4, 8, 2, -1, false},   // strided both ways
                                           Case{3, 4, 0, 1, -1, false},   // repeated row
                                           Case{3, 4, 1, 0, -1, false},   // repeated column
                                           Case{3, 4, 2, 1, -1, false},   // overlapping rows
                                           Case{1, 4, 0, 1, 4, false},    // a row, stride free
                                           Case{1, 4, 99, 3, 3, true},    // a strided row
                                           Case{4, 1, 3, 0, 3, false},    // a strided column
                                           Case{4, 1, 1, 7, 1, false},    // a column
                                           Case{1, 1, 0, 0, 1, false},    // one number
                                           Case{0, 4, 4, 1, 4, false},    // no rows
                                           Case{4, 0, 0, 1, -1, false},   // no columns, odd stride
                                           Case{4, 0, 1, 1, 1, false}));  // no columns

}  // namespace
}  // namespace pteron::cuda
