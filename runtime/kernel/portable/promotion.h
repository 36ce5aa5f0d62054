// The dtype in which operands of several dtypes meet, by torch's rules.
#pragma once

#include <initializer_list>

#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/kernel/portable/arguments.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {

// What both dtypes become when two tensors meet.
ScalarType promoted(ScalarType a, ScalarType b);

// A tensor or a number among the operands of an elementwise kernel. Borrows the tensor; a number
// lies inside, so it stays where it was made.
class Operand final {
 public:
  Operand(const Tensor& tensor)
      : view_(view_of(tensor)), rank_(tensor.dim() > 0 ? 2 : 1) {}  // NOLINT
  Operand(const Scalar& scalar) : scalar_(scalar), rank_(0) {       // NOLINT
    view_.data = static_cast<std::byte*>(const_cast<void*>(scalar_.data()));
    view_.dtype = scalar.dtype();
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  const View& view() const { return view_; }
  // Tensors with dimensions outrank 0-d ones, and those numbers: the lower cannot widen the higher
  // within integers or within floating types.
  int rank() const { return rank_; }

 private:
  Scalar scalar_ = int64_t{0};
  View view_;
  int rank_;
};

ScalarType result_type(std::initializer_list<const Operand*> operands);

}  // namespace pteron::kernels
