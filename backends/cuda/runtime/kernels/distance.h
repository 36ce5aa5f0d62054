// Distances between the rows of two matrices, or of one.
//
//   Distances d;
//   d.rows = 32; d.cols = 16; d.length = 8; d.p = 2;
//   PTERON_RETURN_IF_ERROR(distances(d, ScalarType::Float, x1, x2, out, stream));
//
// Row-major. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct Distances {
  int64_t batch = 1;
  int64_t rows = 0, cols = 0;  // of x1 and of x2
  int64_t length = 0;          // of a row
  double p = 2;                // at least 0, may be infinite
  bool each_once = false;      // x1 is x2, no batch: only pairs i < j, one after the other
};

// out (batch, rows, cols) = the p-norms of the differences. `dtype` is float32 or float64.
Error distances(const Distances& d, ScalarType dtype, const void* x1, const void* x2, void* out,
                cudaStream_t stream);

}  // namespace pteron::cuda
