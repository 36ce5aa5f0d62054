// Checks of sizes and dimensions in kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/kernel/portable/arguments.h"

namespace pteron::kernels {

// Resizes `out`. InvalidArgument if impossible.
Error resize_out(Tensor& out, Span<const int64_t> sizes);

// Wraps a negative dimension of `tensor`; InvalidArgument if out of range.
Result<size_t> checked_dim(const Tensor& tensor, int64_t dim);

}  // namespace pteron::kernels
