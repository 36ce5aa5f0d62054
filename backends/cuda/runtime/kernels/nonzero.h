// Where the elements of a tensor are that are not zero.
//
//   PTERON_ASSIGN_OR_RETURN(Nonzero found, find_nonzero(dtype, x, count, device, stream));
//   // found.count is known on the host: the device was waited for
//   PTERON_RETURN_IF_ERROR(write_coordinates(found, sizes, dims, coordinates, stream));
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct Nonzero {
  slim::StorageRef indices;  // int64, rising
  int64_t count = 0;
};

// `x` holds `count` elements next to each other. Waits for `stream`, since the number that is
// found sizes what follows: InvalidState while it is being captured into a graph. InvalidType for
// complex numbers. `device` must be current.
Result<Nonzero> find_nonzero(ScalarType dtype, const void* x, int64_t count, int device,
                             cudaStream_t stream);

// The coordinate in dimension d of the i-th element goes to coordinates[d * found.count + i].
// Asynchronous on `stream`.
Error write_coordinates(const Nonzero& found, const int64_t* sizes, int dims, int64_t* coordinates,
                        cudaStream_t stream);

}  // namespace pteron::cuda
