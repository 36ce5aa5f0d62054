// Matrix products, one or a batch of them.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out = alpha * a @ b + beta * c, of 2 dimensions or, batched, 3. Any strides, but no element of
// out twice. All of one dtype, but that int8 products may be int32, a of them uint8, and those of
// 16-bit floating point float32; without c then.
struct ProductCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& a;
  const slim::SlimTensor& b;
  const slim::SlimTensor* c = nullptr;  // broadcasts to out, may be out; null: nothing is added
  double beta = 0;
  double alpha = 1;
};

// out[i, j] = scales[j] * sum over l of x[i, l] * weight[j, l], summed in float32. All row-major.
struct Int8WeightCall {
  const slim::SlimTensor& out;     // [m, n] of the dtype of x
  const slim::SlimTensor& x;       // [m, k] of float32, float16 or bfloat16
  const slim::SlimTensor& weight;  // [n, k] of int8
  const slim::SlimTensor& scales;  // [n] of the dtype of x
};

}  // namespace pteron::aoti
