// Positions of numbers in sorted rows.
//
//   Search search;
//   search.compared = search.sequence_dtype = search.values_dtype = ScalarType::Float;
//   search.sequence = boundaries; search.length = n;
//   search.values = x; search.count = search.per_row = count;
//   PTERON_RETURN_IF_ERROR(search_rows(search, ScalarType::Long, out, stream));
//
// out[i] = how many elements of row i / per_row are less than values[i]; with `right`, not greater.
// NaN is greater than every number. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct Search {
  ScalarType compared = ScalarType::Float;  // both are converted to it
  ScalarType sequence_dtype = ScalarType::Float;
  const void* sequence = nullptr;  // rows of `length` elements
  const int64_t* order = nullptr;  // of each row, or null; indices outside count as the nearest
  int64_t length = 0;
  ScalarType values_dtype = ScalarType::Float;
  const void* values = nullptr;
  int64_t count = 0;
  int64_t per_row = 0;  // how many values belong to one row
  bool right = false;
};

// `out` holds int32 or int64. InvalidType for float8.
Error search_rows(const Search& search, ScalarType out_dtype, void* out, cudaStream_t stream);

}  // namespace pteron::cuda
