// Advanced indexing: x[i, :, mask].
#pragma once

#include <vector>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

struct Kernels;  // kernels.h

// The elements that indices select. As in torch, the dimensions of the indices replace the first
// indexed dimension if the indexed dimensions are adjacent; otherwise they come first.
struct Indexed {
  struct Picked {
    size_t dim;
    int64_t size, stride;     // of the tensor along `dim`
    slim::TensorPtr numbers;  // int32 or int64; negative ones count from the end
  };

  slim::TensorPtr x;           // same sizes as the result, stride 0 in the indexed dimensions
  size_t first = 0;            // first dimension of the indices, which have equal sizes
  std::vector<Picked> picked;  // at least one

  // The span in elements from the first to the last that indices can address; x is not empty.
  int64_t reach() const;
};

// `indices` are int32 or int64 integers, bool or uint8 masks, or null (or undefined) for a whole
// dimension. Masks call nonzero, which synchronizes the device.
Result<Indexed> index_into(const Kernels& kernels, const slim::SlimTensor& x,
                           Span<const slim::SlimTensor* const> indices);

// InvalidArgument if an index (int32 or int64) is out of range for dimension `dim` of `x`, on
// devices that can check without synchronizing. Negative indices count from the end or are out of
// range, as `negative` says.
enum class Negative { kFromTheEnd, kOutside };
Error check_indices(const Kernels& kernels, const slim::SlimTensor& numbers,
                    const slim::SlimTensor& x, size_t dim, Negative negative);

struct IndexCall {
  // other = x; x = other, where any of several values for one element wins; or a reduction into x:
  // integer sums and products wrap, integer means round down, min and max propagate NaN.
  enum class Kind { kRead, kWrite, kSum, kProduct, kMean, kMaximum, kMinimum };

  Kind kind;
  const Indexed& indexed;
  const slim::SlimTensor& other;  // same sizes and dtype as indexed.x
  bool include_self = true;       // false: x keeps its value only where nothing is reduced
};

namespace ops {

// out = self with `values` at `indices`. `out` may be `self`; it is unchanged if an argument is
// invalid.
Error index_put_out(const Kernels& kernels, const slim::SlimTensor& out,
                    const slim::SlimTensor& self, Span<const slim::SlimTensor* const> indices,
                    const slim::SlimTensor& values, bool accumulate);

}  // namespace ops
}  // namespace pteron::aoti
