// Copies and fills for tensors with any strides.
//
//   PTERON_RETURN_IF_ERROR(copy_tensor(*target, *source));     // any devices
//
// Thread-safe for disjoint memory.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"

namespace pteron::slim {

struct Scalar;

// Copies `source` over `target`, converting the dtype and broadcasting the sizes (dimensions of
// size 1, and missing leading ones). On the host, overlapping memory is copied as if through a
// temporary. Elsewhere the dtypes must be equal, and work is queued on the current stream; copies
// to or from the host are asynchronous only with `non_blocking`. InvalidArgument: sizes that do not
// broadcast; NotSupported: two devices where strides differ.
Error copy_tensor(const SlimTensor& target, const SlimTensor& source, bool non_blocking = false);

// A copy with its own memory: same strides if dense, else row-major.
Result<TensorPtr> clone_tensor(const SlimTensor& tensor);

// Row-major: an alias if it already is, else a copy, on the same device.
Result<TensorPtr> contiguous_tensor(const SlimTensor& tensor);

// Zeros every element, on any device, on its current stream.
Error zero_tensor(const SlimTensor& tensor);

// Sets every element of a CPU tensor.
void fill_tensor(const SlimTensor& tensor, const Scalar& value);

// Whether the memory ranges of two tensors on one device overlap.
bool may_overlap(const SlimTensor& a, const SlimTensor& b);

}  // namespace pteron::slim
