// One element of each row of a matrix, and where it is.
//
//   const Selection selection{SelectionKind::kMedian, 0, rows, n};
//   PTERON_RETURN_IF_ERROR(select_of_rows(selection, ScalarType::Float, x, values, indices, device,
//                                         stream));
//
// Rows are sorted first (sort.h says in which order, and how much scratch memory that is).
// Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// As SelectCall::Kind in backends/aoti/ops/select/select.h.
enum class SelectionKind { kKth, kMedian, kNanMedian, kMode };

struct Selection {
  SelectionKind kind;
  int64_t k;  // of kKth: from 1 to n
  int64_t rows;
  int64_t n;  // at least 1
};

// `x` is row-major (rows, n), `values` and `indices` have an element for each row. Errors as of
// sort_rows. `device` must be current.
Error select_of_rows(const Selection& selection, ScalarType dtype, const void* x, void* values,
                     int64_t* indices, int device, cudaStream_t stream);

}  // namespace pteron::cuda
