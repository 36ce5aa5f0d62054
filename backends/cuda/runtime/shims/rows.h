// Tensors as matrices with rows along one dimension.
//
//   PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(*self, dim));       // row-major, `dim` last
//   PTERON_ASSIGN_OR_RETURN(RowResult y, RowResult::make(result, dim));
//   kernel(x->data(), y.data(), ...);
//   PTERON_RETURN_IF_ERROR(y.finish());                                  // to the result's strides
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cuda {

// The elements of `tensor` with `dim` moved to the end, row-major: an alias if possible, else a
// copy. A 0-d tensor is one row of one element.
Result<slim::TensorPtr> rows_along(const slim::SlimTensor& tensor, size_t dim);

// A result that a kernel writes with `dim` last.
class RowResult final {
 public:
  static Result<RowResult> make(const slim::SlimTensor& result, size_t dim);
  void* data() const { return (rows_ ? rows_ : moved_)->data(); }
  // Copies to the result's strides, unless written in place.
  Error finish();

 private:
  slim::TensorPtr moved_;  // the result with `dim` last
  slim::TensorPtr rows_;   // null if written in place
};

}  // namespace pteron::cuda
