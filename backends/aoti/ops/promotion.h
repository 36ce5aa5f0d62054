// How torch brings tensors of several sizes and dtypes together.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

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

// Complex numbers of these parts, and the parts of these complex numbers; others as they are.
slim::DType complex_of(slim::DType real);
slim::DType real_of(slim::DType complex);

// A tensor without dimensions counts only where its kind (bool, integer, floating-point, complex)
// is the higher one.
slim::DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b);

}  // namespace pteron::aoti
