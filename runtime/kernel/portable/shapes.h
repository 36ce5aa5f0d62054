// Sizes and dimensions: what kernels check before they touch an element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/kernel/portable/arguments.h"

namespace pteron::kernels {

// Gives `out` the sizes that were computed. InvalidArgument if it cannot have them.
Error resize_out(Tensor& out, Span<const int64_t> sizes);

// A dimension of `tensor`, which may be counted from the end; InvalidArgument.
Result<size_t> checked_dim(const Tensor& tensor, int64_t dim);

}  // namespace pteron::kernels
