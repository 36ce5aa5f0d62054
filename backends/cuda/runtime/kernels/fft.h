// Fourier transforms of rows, of any length.
//
//   FourierRows rows;
//   rows.count = 32; rows.length = rows.in_length = 512; rows.out_length = 257;
//   rows.real_in = true;
//   PTERON_RETURN_IF_ERROR(transform_rows(rows, ScalarType::Float, in, out, device, stream));
//
// Mixed radix, a pass over all rows for each factor; a prime factor p takes p steps for each number.
// Row-major; complex numbers are pairs. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct FourierRows {
  int64_t count = 0;
  int64_t length = 0;  // of the transform
  // Of complex numbers in, fewer than the length stand for a whole whose other part is conjugate.
  int64_t in_length = 0;
  int64_t out_length = 0;                  // the first numbers are kept
  bool real_in = false, real_out = false;  // real_out keeps real parts
  bool forward = true;
  double scale = 1;  // of the result
};

// `dtype`, of the parts of numbers, is float32 or float64. `out` may be `in`.
Error transform_rows(const FourierRows& rows, ScalarType dtype, const void* in, void* out,
                     int device, cudaStream_t stream);

}  // namespace pteron::cuda
