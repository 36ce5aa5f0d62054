// Indexing by tensors, as x[i, :, mask] means it.
#pragma once

#include <vector>

#include "pteron/backends/aoti/ops/kernels.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// What indices name of a tensor. The dimensions of the indices stand where the first indexed
// dimension stood if those are neighbours, else in front.
struct Indexed {
  struct Picked {
    size_t dim;
    int64_t size, stride;     // of the tensor along `dim`
    slim::TensorPtr numbers;  // int32 or int64; negative ones count from the end
  };

  slim::TensorPtr x;           // of the sizes of the result, with strides 0 where numbers count
  size_t first = 0;            // of the dimensions of the numbers, which all have equal sizes
  std::vector<Picked> picked;  // at least one

  // Elements of memory from the first to the last that numbers could name; of x with elements.
  int64_t reach() const;
};

// `indices` are int32 or int64 numbers, masks of bool or uint8, or null (or undefined) for a whole
// dimension. Masks are searched, which waits for the device.
Result<Indexed> index_into(const Kernels& kernels, const slim::SlimTensor& x,
                           Span<const slim::SlimTensor* const> indices);

// InvalidArgument if one of `numbers` (int32 or int64) is outside dimension `dim` of `x`, on
// devices that can tell without a wait. Those below 0 count from the end, or are outside, too.
enum class Negative { kFromTheEnd, kOutside };
Error check_indices(const Kernels& kernels, const slim::SlimTensor& numbers,
                    const slim::SlimTensor& x, size_t dim, Negative negative);

struct IndexCall {
  // other = x; x = other, of several values for one element any; or x takes in all of them, sums and
  // products wrap, means of integers are rounded down, NaN is an extreme.
  enum class Kind { kRead, kWrite, kSum, kProduct, kMean, kMaximum, kMinimum };

  Kind kind;
  const Indexed& indexed;
  const slim::SlimTensor& other;  // of the sizes and the dtype of indexed.x
  bool include_self = true;       // false: what x held before counts only where nothing is taken in
};

namespace ops {

// out = self with `values` at `indices`. `out` may be `self`; it is not touched if an argument is
// wrong.
Error index_put_out(const Kernels& kernels, const slim::SlimTensor& out,
                    const slim::SlimTensor& self, Span<const slim::SlimTensor* const> indices,
                    const slim::SlimTensor& values, bool accumulate);

}  // namespace ops
}  // namespace pteron::aoti
