// Implementations of attention: out = softmax(scale * q k^T + bias) v.
//
// Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Tensors are (batch, heads, queries or keys, dim), by their strides in elements. A row without a
// key that it may look at is zero.
struct Attention {
  ScalarType dtype = ScalarType::Float;  // of all tensors: float32, float16 or bfloat16
  int64_t batch = 0, heads = 0;
  int64_t kv_heads = 0;  // divides heads: as many neighbours share a key and a value
  int64_t queries = 0, keys = 0;
  int64_t dim = 0, value_dim = 0;  // at most 256
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* bias = nullptr;  // null: none
  void* out = nullptr;
  int64_t q_strides[4], k_strides[4], v_strides[4], out_strides[4];
  int64_t bias_strides[4];  // 0 along what it is broadcast over
  bool causal = false;      // query i looks at keys 0 to i
  double scale = 1;
};

// By cuDNN. NotFound without it, NotSupported for what it has no kernel for.
Error attention_with_cudnn(const Attention& a, int device, cudaStream_t stream);

// Reads the keys for a few queries at a time: bound by memory for one, slow for many.
Error attention_by_rows(const Attention& a, int device, cudaStream_t stream);

}  // namespace pteron::cuda
