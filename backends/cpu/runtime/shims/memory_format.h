// Images with their channels innermost.
#pragma once

#include "backends/aoti/slim/core/slim_tensor.h"
#include "runtime/core/result.h"
#include "runtime/core/span.h"

namespace pteron::cpu {

// Whether the strides of a tensor of 4 or 5 dimensions say channels-last. Where both layouts are
// the same the answer is no, as in torch: kernels of generated code rely on equal answers.
bool is_channels_last(const slim::SlimTensor& tensor);

// Uninitialised, of 4 or 5 dimensions, channels innermost; row-major for other ranks.
Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype);

}  // namespace pteron::cpu
