// Memory for a kernel's temporaries, from the pool of the open ExecutionScope or of the current
// stream. Returned with the last reference, for later work on that stream.
#pragma once

#include <cstddef>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

Result<slim::StorageRef> allocate_scratch(size_t nbytes, int device);

}  // namespace pteron::cuda
