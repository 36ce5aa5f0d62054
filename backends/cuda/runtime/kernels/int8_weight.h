// int8 weight-only GEMM with a scale per output channel.
//
//   const Int8Weight product{ScalarType::BFloat16, x, weight, scales, out, m, n, k};
//   PTERON_RETURN_IF_ERROR(int8_weight(product, stream));
//
// out[i, j] = scales[j] * sum over l of x[i, l] * weight[j, l], accumulated in float32 in a fixed
// order. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct Int8Weight {
  ScalarType dtype;      // of x, scales and out
  const void* x;         // (m, k), all row-major
  const int8_t* weight;  // (n, k)
  const void* scales;    // (n)
  void* out;             // (m, n)
  int64_t m, n, k;
};

// InvalidType for another dtype than float16, bfloat16, float32.
Error int8_weight(const Int8Weight& product, cudaStream_t stream);

}  // namespace pteron::cuda
