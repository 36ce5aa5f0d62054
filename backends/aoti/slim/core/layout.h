// Strides of outputs, following torch's rules. Generated code assumes the strides from tracing, so
// shims must produce the same.
//
//   int64_t strides[kMaxDims];
//   channels_last_strides(sizes, strides);
//   make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, device);
//
// Pure functions. `strides` has as many entries as `sizes`; in elements.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/span.h"

namespace pteron::slim {

// Whether a 4-d or 5-d tensor has channels-last strides. False if the strides are ambiguous, as in
// torch: generated code relies on the same answer.
bool is_channels_last(const SlimTensor& tensor);

// Whether the result of this convolution is channels-last: if input or weight is. In 1-d only the
// weight matters: torch makes the input contiguous first.
bool is_convolution_channels_last(const SlimTensor& input, const SlimTensor& weight);

// Channels last for 3 to 5 dimensions; row-major for other ranks.
void channels_last_strides(Span<const int64_t> sizes, int64_t* strides);

// Dense, with the dim order of the operands; the first operand that distinguishes two dimensions
// decides. An operand is given by its strides at the output's sizes: 0 where it is broadcast.
void ordered_strides(Span<const int64_t> sizes,
                     std::initializer_list<const int64_t*> operand_strides, int64_t* strides);

}  // namespace pteron::slim
