// Sorts each row of a matrix; used by several families.
//
//   PTERON_RETURN_IF_ERROR(sort_rows(numbers_of(*x), rows, n, /*descending=*/true, k, values,
//                                    indices, scope));
//
// `x` is row-major (rows, n), `values` and `indices` are row-major (rows, k): the first k of each
// sorted row, and where they were. The sort is stable. NaN counts as greater than every number, -0
// as equal to 0; bool as 0 and 1. Scratch memory is about 5 times that of x (at least 16 bytes an
// element).
#pragma once

#include <cstdint>

#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {

// InvalidType for float8; InvalidArgument for k outside 0..n or rows of 2^31 elements or more.
Error sort_rows(const Numbers& x, int64_t rows, int64_t n, bool descending, int64_t k, void* values,
                int64_t* indices, const DeviceScope& scope);

}  // namespace pteron::cuda
