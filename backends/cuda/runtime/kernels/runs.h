// Runs of equal rows of a matrix, and of other elements that lie one after the other.
//
//   PTERON_RETURN_IF_ERROR(order_rows(matrix, order, device, stream));
//   PTERON_RETURN_IF_ERROR(mark_runs(matrix, order, starts, stream));
//   // and once it is known where runs end:
//   PTERON_RETURN_IF_ERROR(number_runs({count, ends, num_ends}, order, true, numbers, stream));
//
// Pointers are the device's. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Row-major.
struct Matrix {
  ScalarType dtype;
  const void* data;
  int64_t rows, width;
};

// order = the numbers of the rows, so that rows rise, by their first elements that differ; equal
// rows keep their order, NaN is greater than every number. `device` must be current. InvalidType
// for float8 and complex numbers.
Error order_rows(const Matrix& matrix, int64_t* order, int device, cudaStream_t stream);

// starts[i] = whether row order[i] (without `order`: i) differs from the one before; NaN differs
// from NaN. The first one always does. InvalidType as above.
Error mark_runs(const Matrix& matrix, const int64_t* order, bool* starts, cudaStream_t stream);

// Element i of `count` belongs to the first run k with i < ends[k], or to run `num_ends`.
struct Runs {
  int64_t count;
  const int64_t* ends;
  int64_t num_ends;
};

// numbers[order[i]] (without `order`: numbers[i]) = the run of element i; int64 if `wide`, else
// int32.
Error number_runs(const Runs& runs, const int64_t* order, bool wide, void* numbers,
                  cudaStream_t stream);

// lengths[k] = elements of run k, for k below `num_lengths`; a run without an end ends at `count`.
Error measure_runs(const Runs& runs, int64_t num_lengths, int64_t* lengths, cudaStream_t stream);

}  // namespace pteron::cuda
