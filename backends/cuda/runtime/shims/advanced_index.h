// Tensors of indices, as x[i, :, mask] means them, ready for the kernels.
//
//   PTERON_ASSIGN_OR_RETURN(AdvancedIndex advanced, AdvancedIndex::make(x, indices));
//   // out of advanced.sizes()
//   PTERON_RETURN_IF_ERROR(index_read(advanced.indexing(x, out.strides()), ..., stream));
//
// Indices are int32 or int64 numbers (negative ones count from the end) or masks, absent ones stand
// for a whole dimension. The indexed dimensions of the result stand where the first one stood if
// they are neighbours, else in front. A mask is searched for what holds in it, on the current
// stream, and the host waits for that; numbers cost no wait and are not checked for their range.
#pragma once

#include <cstdint>
#include <vector>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/cuda/runtime/kernels/indexing.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cuda {

class AdvancedIndex final {
 public:
  // `indices` are on the device of `x`. InvalidArgument for shapes that do not fit, InvalidType for
  // other dtypes.
  static Result<AdvancedIndex> make(const slim::SlimTensor& x,
                                    Span<const slim::SlimTensor* const> indices);

  // Of the result.
  Span<const int64_t> sizes() const { return sizes_; }
  // With which `x`, of the sizes that this was made for, is read there: 0 for the indexed
  // dimensions. In elements; `strides` has room for as many as there are sizes.
  void strides_of(const slim::SlimTensor& x, int64_t* strides) const;

  // For the kernels; valid as long as this is. `x` has the sizes that this was made for,
  // `other_strides` are those of the result or of what is written.
  Indexing indexing(const slim::SlimTensor& x, Span<const int64_t> other_strides) const;

 private:
  // The numbers that pick from one dimension of x.
  struct Numbers {
    size_t dim;
    slim::TensorPtr tensor;
  };

  Error add(const slim::SlimTensor& x, const slim::SlimTensor& index, size_t dim);
  Error broadcast();
  Error lay_out(const slim::SlimTensor& x);

  std::vector<Numbers> numbers_;
  std::vector<int64_t> shape_;  // that the numbers broadcast to
  std::vector<int64_t> sizes_;
  std::vector<int> x_dims_;  // of x, for each dimension of the result; -1 for those of the numbers
  size_t indexed_at_ = 0;    // where shape_ stands in sizes_
};

// Where `tensor` is not zero: a row of coordinates for each element, in an int64 tensor of
// (count, dimensions) whose columns are contiguous, as torch has it. Works on the current stream
// and waits for it.
Result<slim::TensorPtr> nonzero_coordinates(const slim::SlimTensor& tensor);

}  // namespace pteron::cuda
