// Matmul and batched matmul.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = alpha * a @ b + beta * c, 2-d or, batched, 3-d. Any strides, but no element of out may
// overlap another. All have one dtype, except: an int8 matmul may have an int32 out and a uint8 a,
// and a 16-bit floating-point matmul a float32 out; both without c.
struct ProductCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& a;
  const slim::SlimTensor& b;
  const slim::SlimTensor* c = nullptr;  // broadcasts to out, may be out; null: no addend
  double beta = 0;
  double alpha = 1;
};

// out[i, j] = scales[j] * sum over l of x[i, l] * weight[j, l], accumulated in float32. All
// row-major.
struct Int8WeightCall {
  const slim::SlimTensor& out;     // [m, n], same dtype as x
  const slim::SlimTensor& x;       // [m, k], float32, float16 or bfloat16
  const slim::SlimTensor& weight;  // [n, k], int8
  const slim::SlimTensor& scales;  // [n], same dtype as x
};

// out = (scale_a * a) @ (scale_b * b) + bias. Scales are float32, contiguous: one element each, or
// one for each row of a and each column of b.
struct ScaledProductCall {
  const slim::SlimTensor& out;      // [m, n], float16, bfloat16 or float32, row-major
  const slim::SlimTensor& a;        // [m, k], float8_e4m3fn, row-major
  const slim::SlimTensor& b;        // [k, n], float8_e4m3fn, columns contiguous
  const slim::SlimTensor& scale_a;  // 1 element, or m
  const slim::SlimTensor& scale_b;  // 1 element, or n
  const slim::SlimTensor* bias;     // [n], contiguous, same dtype as out; or null
  bool fast_accumulation;           // sums may have fewer bits than float32
};

}  // namespace pteron::aoti
