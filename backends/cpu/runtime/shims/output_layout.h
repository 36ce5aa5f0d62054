// Results laid out as slim/core/layout.h says, on the CPU.
#pragma once

#include <initializer_list>

#include "pteron/backends/aoti/ops/promotion.h"
#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cpu {

// Uninitialised, channels innermost for 3 to 5 dimensions; row-major for other ranks.
Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype);

// Uninitialised, of slim::ordered_strides().
Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          std::initializer_list<const int64_t*> operand_strides);

// The same for a result of the sizes of `operand`.
Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype);

using aoti::broadcast;
using aoti::Broadcast;

}  // namespace pteron::cpu
