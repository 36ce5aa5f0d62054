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

}  // namespace pteron::aoti
