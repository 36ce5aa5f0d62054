// Arithmetic of complex and real numbers of any strides.
//
//   Arithmetic sum;
//   sum.kind = ArithmeticKind::kAdd;
//   sum.a = sum.b = {x, ScalarType::Float, /*is_complex=*/true, {1}};
//   sum.out = {y, ScalarType::Float, true, {1}};
//   sum.dims = 1; sum.sizes[0] = sum.count = n;
//   PTERON_RETURN_IF_ERROR(compute(sum, stream));
//
// Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// As ArithmeticCall::Kind in backends/aoti/ops/arithmetic/arithmetic.h.
enum class ArithmeticKind { kAdd, kMultiply, kPower, kAbsolute, kPolar };

inline constexpr int kMaxArithmeticDims = 16;

struct Operand {
  void* data = nullptr;
  ScalarType dtype = ScalarType::Float;  // of the parts of complex numbers
  bool is_complex = false;
  int64_t strides[kMaxArithmeticDims];  // 0 repeats; in elements
};

struct Arithmetic {
  ArithmeticKind kind = ArithmeticKind::kAdd;
  double alpha = 1;
  Operand a, b, out;
  int dims = 0;
  int64_t sizes[kMaxArithmeticDims];
  int64_t count = 0;  // of elements of out
};

// Computes in int64 where out and the operands are integers, in float64 where one of them is, else
// in float32. InvalidType for float8.
Error compute(const Arithmetic& arithmetic, cudaStream_t stream);

}  // namespace pteron::cuda
