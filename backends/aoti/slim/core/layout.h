// Strides of results, as torch chooses them. Generated code knows the strides of a result from
// tracing, so shims have to come to the same ones.
//
//   int64_t strides[kMaxDims];
//   channels_last_strides(sizes, strides);
//   make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, device);
//
// Pure functions. `strides` has room for as many numbers as there are sizes; in elements.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/span.h"

namespace pteron::slim {

// Whether the strides of a tensor of 4 or 5 dimensions say channels-last. Where both layouts are
// the same the answer is no, as in torch: kernels of generated code rely on equal answers.
bool is_channels_last(const SlimTensor& tensor);

// Whether the result of this convolution is channels-last: if input or weight is. Of one spatial
// dimension, only the weight counts: torch makes the input row-major first.
bool is_convolution_channels_last(const SlimTensor& input, const SlimTensor& weight);

// Channels innermost for 3 to 5 dimensions; row-major for other ranks.
void channels_last_strides(Span<const int64_t> sizes, int64_t* strides);

// Without gaps, dimensions ordered as those of the operands are, the first operand that tells two
// dimensions apart deciding. An operand is given by the strides with which it is read at the
// result's sizes: 0 where it is broadcast.
void ordered_strides(Span<const int64_t> sizes,
                     std::initializer_list<const int64_t*> operand_strides, int64_t* strides);

}  // namespace pteron::slim
