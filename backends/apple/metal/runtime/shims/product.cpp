#include "pteron/backends/aoti/ops/product/product.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// Strides in elements.
#define PTERON_PRODUCT_PARAMS               \
  struct MatrixParams {                     \
    int64_t rows, columns, depth;           \
    int64_t a_batch, a_row, a_column;       \
    int64_t b_batch, b_row, b_column;       \
    int64_t c_batch, c_row, c_column;       \
    int64_t out_batch, out_row, out_column; \
    float alpha, beta;                      \
  };
PTERON_PRODUCT_PARAMS

// OUT = alpha * A @ B + beta * C. A thread computes a 4 x 4 tile in registers; neighbouring threads
// share operands through the caches.
const char kSource[] = PTERON_TEXT(PTERON_PRODUCT_PARAMS) R"MTL(
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

struct Strides {
  int64_t batch, row, column;
};

// Strides of a matrix or a batch of matrices, broadcast to `like`.
Strides strides_of(const SlimTensor& tensor, const SlimTensor& like) {
  int64_t strides[3] = {0, 0, 0};
  for (size_t d = 0; d < tensor.dim(); ++d) {
    const size_t at = 3 - tensor.dim() + d;
    const bool repeats = tensor.size(d) == 1 && like.size(like.dim() - tensor.dim() + d) != 1;
    strides[at] = repeats ? 0 : tensor.stride(d);
  }
  return {strides[0], strides[1], strides[2]};
}

}  // namespace

Error product(const aoti::ProductCall& call) {
  const SlimTensor &out = call.out, &a = call.a, &b = call.b;
  if (!element_of(out.dtype())) return aoti::no_kernel_for(out);
  const SlimTensor& c = call.c ? *call.c : out;
  const size_t rank = out.dim();
  const int64_t batch = rank == 3 ? out.size(0) : 1;
  const Strides x = strides_of(a, a), y = strides_of(b, b), z = strides_of(c, out),
                to = strides_of(out, out);
  const MatrixParams params{out.size(rank - 2),
                            out.size(rank - 1),
                            a.size(rank - 1),
                            x.batch,
                            x.row,
                            x.column,
                            y.batch,
                            y.row,
                            y.column,
                            z.batch,
                            z.row,
                            z.column,
                            to.batch,
                            to.row,
                            to.column,
                            static_cast<float>(call.alpha),
                            static_cast<float>(call.c ? call.beta : 0)};
  if (call.c && slim::may_overlap(out, c) && c.data() != out.data()) {
    PTERON_ASSIGN_OR_RETURN(const TensorPtr copy, slim::clone_tensor(c));
    return product({out, a, b, copy.get(), call.beta, call.alpha});
  }
  return launch(kSource, {{"OUT", out.dtype()}, {"A", a.dtype()}, {"B", b.dtype()}}, "product",
                {memory(out), memory(a), memory(b), memory(c), bytes(params)},
                {static_cast<uint64_t>(params.columns + 3) / 4,
                 static_cast<uint64_t>(params.rows + 3) / 4, static_cast<uint64_t>(batch)});
}

Error int8_weight(const aoti::Int8WeightCall& call) {
  const int64_t depth = call.x.size(1), columns = call.weight.size(0);
  return launch(kSource,
                {{"OUT", call.out.dtype()}, {"A", call.x.dtype()}, {"B", call.weight.dtype()}},
                "int8_weight",
                {memory(call.out), memory(call.x), memory(call.weight), memory(call.scales),
                 bytes(depth), bytes(columns)},
                {static_cast<uint64_t>(columns), static_cast<uint64_t>(call.x.size(0)), 1});
}

}  // namespace pteron::metal
