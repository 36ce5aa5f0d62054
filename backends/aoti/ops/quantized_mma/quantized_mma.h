// GEMM with a quantized weight.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Format of a weight, by its dtype: kNone is that of x, [n, k], not packed.
enum class QuantizedFormat { kInt4, kInt8, kFloat8, kNone };

// Columns of a strip and rows of a chunk of the packed weight; layout: quantized_mma.py.
inline constexpr int64_t kMmaStrip = 16, kMmaChunk = 64;

// Elements of the longest row that the operator normalizes.
inline constexpr int64_t kMmaMostNormalized = 1 << 14;

// out[i, j] = sum over l of x[i, l] * (values[l, j] * scales[l / group_size, j] +
// zero_points[l / group_size, j]), accumulated in float32. All row-major.
struct QuantizedMmaCall {
  const slim::SlimTensor& out;          // [m, n], same dtype as x
  const slim::SlimTensor& x;            // [m, k], float16 or bfloat16; k is a multiple of 64
  const slim::SlimTensor& weight;       // packed; [strips, k / 64, bytes of a chunk]
  const slim::SlimTensor* scales;       // [groups, 16 * strips], same dtype as x; null: kNone
  const slim::SlimTensor* zero_points;  // [groups, 16 * strips], float32; null: zeros
  QuantizedFormat format;
  int64_t group_size;  // rows of the weight that share a scale: k, or a power of two from 32
  // Of one row:
  const slim::SlimTensor* norm = nullptr;  // [k], same dtype as x: x / sqrt(mean(x^2) + epsilon) *
  double epsilon = 0;                      // norm is multiplied
  const slim::SlimTensor* residual = nullptr;  // like out: added to the product
  // Columns are 8 of a matrix and 8 of another in turns; out, [1, n / 2], is silu(x @ a) * (x @ b).
  bool gated = false;
  // Of kNone: weights whose columns follow, a multiple of 16 each; gated: the other matrix.
  const slim::SlimTensor* further[2] = {};
};

}  // namespace pteron::aoti
