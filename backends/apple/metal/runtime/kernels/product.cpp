#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// OUT = alpha * A @ B + beta * C. A thread computes a 4 x 4 tile in registers; neighbouring threads
// share operands through the caches.
const char kProductSource[] = R"MTL(
struct MatrixParams {
  long rows, columns, depth;
  long a_batch, a_row, a_column;
  long b_batch, b_row, b_column;
  long c_batch, c_row, c_column;
  long out_batch, out_row, out_column;
  float alpha, beta;
};

kernel void product(device OUT* out, device const A* a, device const B* b, device const OUT* c,
                    constant MatrixParams& p, uint3 position [[thread_position_in_grid]]) {
  const long row = 4 * long(position.y), column = 4 * long(position.x), batch = position.z;
  const int rows = int(min(4L, p.rows - row)), columns = int(min(4L, p.columns - column));
  device const A* x = a + batch * p.a_batch + row * p.a_row;
  device const B* y = b + batch * p.b_batch + column * p.b_column;
  OUT_SUM sums[4][4] = {};
  for (long k = 0; k < p.depth; ++k) {
    OUT_SUM left[4], right[4];
    for (int i = 0; i < 4; ++i) {
      left[i] = i < rows ? OUT_SUM(x[i * p.a_row]) : OUT_SUM(0);
      right[i] = i < columns ? OUT_SUM(y[i * p.b_column]) : OUT_SUM(0);
    }
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) sums[i][j] += left[i] * right[j];
    }
    x += p.a_column;
    y += p.b_row;
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      OUT_SUM value = p.alpha == 1 ? sums[i][j] : OUT_SUM(p.alpha * sums[i][j]);
      if (p.beta != 0) {
        const OUT_SUM added = c[batch * p.c_batch + (row + i) * p.c_row + (column + j) * p.c_column];
        value += p.beta == 1 ? added : OUT_SUM(p.beta * added);
      }
      out[batch * p.out_batch + (row + i) * p.out_row + (column + j) * p.out_column] = OUT(value);
    }
  }
}

kernel void int8_weight(device OUT* out, device const OUT* x, device const char* weight,
                        device const OUT* scales, constant long& depth, constant long& columns,
                        uint2 position [[thread_position_in_grid]]) {
  const long row = position.y, column = position.x;
  float sum = 0;
  for (long k = 0; k < depth; ++k) sum += float(x[row * depth + k]) * weight[column * depth + k];
  out[row * columns + column] = OUT(sum * float(scales[column]));
}
)MTL";

}  // namespace pteron::metal
