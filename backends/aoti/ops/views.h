// Views of a tensor's memory.
#pragma once

#include <optional>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// The offset is in elements (of `dtype` if given). InvalidArgument if the view exceeds the storage.
Result<slim::TensorPtr> make_view(const slim::SlimTensor& tensor, Span<const int64_t> sizes,
                                  Span<const int64_t> strides, int64_t storage_offset,
                                  std::optional<slim::DType> dtype = std::nullopt);

// Whether it broadcasts to `sizes`.
bool broadcasts_to(const slim::SlimTensor& tensor, Span<const int64_t> sizes);

// `tensor` expanded to `sizes`, with strides of 0. InvalidArgument, with the tensor's name, if it
// does not broadcast to them.
Result<slim::TensorPtr> broadcast_to(const slim::SlimTensor& tensor, const char* name,
                                     Span<const int64_t> sizes);

// Flattened, row-major: an alias if contiguous, else a copy.
Result<slim::TensorPtr> flattened(const slim::SlimTensor& tensor);

// `source`, or a copy if it overlaps `target`.
Result<slim::TensorPtr> apart_from(const slim::SlimTensor& target, const slim::SlimTensor& source);

// The sizes that tensors broadcast to, ignoring their last `matrix` dimensions. InvalidArgument if
// they do not broadcast.
class CommonSizes final {
 public:
  explicit CommonSizes(size_t matrix = 0) : matrix_(matrix) {}
  Error add(const slim::SlimTensor& tensor, const char* name);
  operator Span<const int64_t>() const { return {sizes_, dim_}; }  // NOLINT: a list of sizes
  size_t dim() const { return dim_; }

 private:
  size_t matrix_, dim_ = 0;
  int64_t sizes_[slim::kMaxDims];
};

}  // namespace pteron::aoti
