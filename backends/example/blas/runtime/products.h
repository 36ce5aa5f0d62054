// Matrix products over tensors: out = alpha * left @ right + beta * bias.
//
//   PTERON_ASSIGN_OR_RETURN(const Sizes sizes, product_sizes(left, right, false));
//   PTERON_RETURN_IF_ERROR(out.resize(sizes));
//   PTERON_RETURN_IF_ERROR(multiply({left, right, false, &bias, 1.0f, 1.0f}, out));
//
// Tensors are float32 and contiguous (see contiguous.h). Thread-safe; threads are OpenBLAS's own.
#pragma once

#include <array>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron::blas {

// Sizes of a tensor, inline.
struct Sizes {
  std::array<int64_t, kMaxTensorDims> values{};
  size_t dim = 0;

  operator Span<const int64_t>() const { return {values.data(), dim}; }
};

// left [..., M, K] (or [K]) with right [K, N], or [B, M, K] with [B, K, N]; with `right_transposed`
// right is [N, K]. InvalidArgument names both shapes if they do not fit.
Result<Sizes> product_sizes(const Tensor& left, const Tensor& right, bool right_transposed);

struct MultiplyArgs {
  const Tensor& left;
  const Tensor& right;
  bool right_transposed;
  const Tensor* bias;  // [N], [1, N], [M, N], or null
  float alpha;
  float beta;
};

// Writes every element of `out`, which has the sizes of product_sizes() and overlaps no operand.
// InvalidArgument: the bias has another shape; NotSupported: a size above 2^31 - 1.
Error multiply(const MultiplyArgs& args, const Tensor& out);

}  // namespace pteron::blas
