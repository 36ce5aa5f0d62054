// Writing where a mask holds.
//
//   PTERON_RETURN_IF_ERROR(masked_scatter(4, out, mask, n, source, m, device, stream));
//
// Pointers are the device's. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// The k-th element for which `mask` holds = source[k], if there is one. `device` must be current.
// InvalidArgument for items of other than 1, 2, 4, 8 or 16 bytes.
Error masked_scatter(size_t item_nbytes, void* out, const bool* mask, int64_t count,
                     const void* source, int64_t source_count, int device, cudaStream_t stream);

}  // namespace pteron::cuda
