// How results are laid out where torch's answer depends on the inputs' strides. Generated code
// knows the strides of a result from tracing, so ours have to be the same.
#pragma once

#include <initializer_list>

#include "backends/aoti/slim/core/slim_tensor.h"
#include "runtime/core/result.h"
#include "runtime/core/span.h"

namespace pteron::cpu {

// A result of `sizes` without gaps whose dimensions are ordered as those of the operands are, the
// first operand that tells two dimensions apart deciding. An operand is given by the strides with
// which it is read at the result's sizes: 0 where it is broadcast.
Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          std::initializer_list<const int64_t*> operand_strides);

// The same for a result of the sizes of `operand`.
Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype);

// Sizes that tensors broadcast to, and the strides with which each is read there.
struct Broadcast {
  size_t dim = 0;
  int64_t sizes[slim::kMaxDims];
  int64_t a[slim::kMaxDims];
  int64_t b[slim::kMaxDims];

  Span<const int64_t> shape() const { return {sizes, dim}; }
};

// InvalidArgument if they do not broadcast.
Result<Broadcast> broadcast(const slim::SlimTensor& a, const slim::SlimTensor& b);

}  // namespace pteron::cpu
