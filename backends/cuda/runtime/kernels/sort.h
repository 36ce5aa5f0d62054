// Sorts each row of a matrix and tells where every element came from.
//
//   PTERON_RETURN_IF_ERROR(sort_rows(ScalarType::Float, x, rows, n, /*descending=*/true, k,
//                                    values, indices, device, stream));
//
// `x` is row-major (rows, n), `values` and `indices` are row-major (rows, k): the first k of each
// sorted row. The sort is stable. NaN counts as greater than every number, -0 as equal to 0; bool
// as 0 and 1. Scratch memory is about 5 times that of x (at least 16 bytes an element).
// Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// InvalidType for float8; InvalidArgument for k outside 0..n or rows of 2^31 elements or more.
// `device` must be current.
Error sort_rows(ScalarType dtype, const void* x, int64_t rows, int64_t n, bool descending,
                int64_t k, void* values, int64_t* indices, int device, cudaStream_t stream);

namespace internal {

// Sorts `keys_in` of each row ascending into `keys_out`, and `indices_in` along. Scratch: with
// `scratch` null only `scratch_nbytes` is filled in.
template <typename Key>
Error sort_keys(const Key* keys_in, Key* keys_out, const uint32_t* indices_in,
                uint32_t* indices_out, int64_t rows, int64_t n, int key_bits, void* scratch,
                size_t* scratch_nbytes, cudaStream_t stream);

}  // namespace internal
}  // namespace pteron::cuda
