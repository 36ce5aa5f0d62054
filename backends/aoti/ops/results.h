// Results of operators, uninitialised, laid out as torch lays them out: generated code knows their
// strides from tracing.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

Result<slim::TensorPtr> make_row_major(Span<const int64_t> sizes, slim::DType dtype, Device device);

// Channels innermost for 3 to 5 dimensions; row-major for other ranks.
Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype,
                                           Device device);

// Of slim::ordered_strides().
Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          Device device,
                                          std::initializer_list<const int64_t*> operand_strides);

// The same for a result of the sizes and on the device of `operand`.
Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype);

// The sizes of a tensor, to change one of them.
struct Sizes {
  explicit Sizes(const slim::SlimTensor& tensor);
  operator Span<const int64_t>() const { return {values, dim}; }  // NOLINT: a list of sizes
  // One element along dimension `d`, or with `keepdim` false no such dimension.
  void reduce(size_t d, bool keepdim);

  int64_t values[slim::kMaxDims];
  size_t dim;
};

// The numbers of a list for `dims` spatial dimensions, the last of three: one holds for each of them,
// none leaves `values` alone. InvalidArgument for other lengths, and numbers below `least`.
Error spread(Span<const int64_t> list, size_t dims, const char* name, int64_t least,
             int64_t* values);

// 1 for a tensor of no dimensions.
inline int64_t size_along(const slim::SlimTensor& tensor, size_t dim) {
  return tensor.dim() == 0 ? 1 : tensor.size(dim);
}

inline bool has_sizes(const slim::SlimTensor& tensor, Span<const int64_t> sizes) {
  const Span<const int64_t> found = tensor.sizes();
  return std::equal(found.begin(), found.end(), sizes.begin(), sizes.end());
}

// InvalidType for complex numbers.
Error check_ordered(const slim::SlimTensor& self);
// An `out` that has the dtype and sizes of `self` and names no element twice.
Error check_out(const slim::SlimTensor& out, const slim::SlimTensor& self);

// The error for a dtype for which there is no kernel.
Error no_kernel_for(const slim::SlimTensor& tensor);

}  // namespace pteron::aoti
