// How many numbers there are of each kind.
//
//   PTERON_RETURN_IF_ERROR(count_by_range(ScalarType::Float, x, count, low, high, out, bins, device,
//                                         stream));
//
// `x` holds `count` elements next to each other. Asynchronous on `stream` but for
// range_of_integers. `device` must be current. InvalidType for float8.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// out[i] = how many of the floating-point numbers lie in the i-th of `bins` equal parts of
// [low, high]; of the range of the numbers if both are equal, none if that is not finite. `out` is
// of the type of x.
Error count_by_range(ScalarType dtype, const void* x, int64_t count, double low, double high,
                     void* out, int64_t bins, int device, cudaStream_t stream);

struct IntegerRange {
  int64_t low, high;
};

// Waits for `stream`: InvalidState while it is being captured into a graph.
Error range_of_integers(ScalarType dtype, const void* x, int64_t count, IntegerRange* range,
                        int device, cudaStream_t stream);

// out[x[i]] += 1; every x[i] is within out.
Error count_integers(ScalarType dtype, const void* x, int64_t count, int64_t* out,
                     cudaStream_t stream);

// out[x[i]] += weights[i]; `out` holds float32 or float64. The order of the sums varies.
Error add_weights(ScalarType dtype, const void* x, int64_t count, ScalarType weights_dtype,
                  const void* weights, ScalarType out_dtype, void* out, cudaStream_t stream);

}  // namespace pteron::cuda
