// Integer matmul (wrapping) for all strides and sizes, without a library.
//
//   IntegerProduct product;
//   product.operands = ScalarType::Char;
//   product.result = ScalarType::Int;
//   product.out = {y, 1, m, n, 0, n, 1}; ...
//   PTERON_RETURN_IF_ERROR(integer_product(product, stream));
//
// Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include "pteron/backends/cuda/runtime/kernels/matrix_layout.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// out = alpha * a @ b + beta * c.
struct IntegerProduct {
  ScalarType operands = ScalarType::Int;  // dtype of a and b
  ScalarType result = ScalarType::Int;    // of out and c
  MatrixView out, a, b;
  MatrixView c;  // of the shape of out, may be out; data is null: nothing is added
  int64_t alpha = 1, beta = 0;
};

// InvalidType for anything but one dtype of uint8, int8, int16, int32, int64, or int8 to int32.
Error integer_product(const IntegerProduct& product, cudaStream_t stream);

}  // namespace pteron::cuda
