// Uninitialized operator outputs with torch's strides, which generated code assumes from tracing.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

Result<slim::TensorPtr> make_row_major(Span<const int64_t> sizes, slim::DType dtype, Device device);

// Channels last for 3 to 5 dimensions; row-major for other ranks.
Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype,
                                           Device device);

// Of slim::ordered_strides().
Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          Device device,
                                          std::initializer_list<const int64_t*> operand_strides);

// The same, with the sizes and the device of `operand`.
Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype);

// A copy of a tensor's sizes, to be modified.
struct Sizes {
  explicit Sizes(const slim::SlimTensor& tensor);
  operator Span<const int64_t>() const { return {values, dim}; }  // NOLINT: a list of sizes
  // Size 1 in dimension `d`, or without it if `keepdim` is false.
  void reduce(size_t d, bool keepdim);

  int64_t values[slim::kMaxDims];
  size_t dim;
};

// Expands an int list to `dims` spatial dimensions, the last of three: one value applies to all, an
// empty list leaves `values` unchanged. InvalidArgument for other lengths, and values below
// `least`.
Error spread(Span<const int64_t> list, size_t dims, const char* name, int64_t least,
             int64_t* values);

// 1 for a 0-d tensor.
inline int64_t size_along(const slim::SlimTensor& tensor, size_t dim) {
  return tensor.dim() == 0 ? 1 : tensor.size(dim);
}

inline bool has_sizes(const slim::SlimTensor& tensor, Span<const int64_t> sizes) {
  const Span<const int64_t> found = tensor.sizes();
  return std::equal(found.begin(), found.end(), sizes.begin(), sizes.end());
}

// InvalidType for complex dtypes.
Error check_ordered(const slim::SlimTensor& self);
// Checks that `out` has the dtype and sizes of `self` and that no elements overlap.
Error check_out(const slim::SlimTensor& out, const slim::SlimTensor& self);

// The error for a dtype for which there is no kernel.
Error no_kernel_for(const slim::SlimTensor& tensor);

}  // namespace pteron::aoti
