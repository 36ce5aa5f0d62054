// What all shims of matrix products ask of their arguments.
//
//   PTERON_RETURN_IF_ERROR(check_product(2, {"out", out}, {"self", self}, {"mat2", mat2}));
//
// Costs a few comparisons where nothing is wrong; a message is made only for what is.
#pragma once

#include <cstddef>
#include <optional>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/matrix_product.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

// out = a @ b, of 2 or (batched) 3 dimensions: one device, one dtype that the GEMM layer takes,
// shapes that fit, and an out that can be written to. InvalidArgument or InvalidType says which are
// not, with their dtypes, shapes and strides.
Error check_product(size_t dims, const NamedTensor& out, const NamedTensor& a,
                    const NamedTensor& b);

// What is added to `out`, seen in its shape. InvalidArgument where `self` does not broadcast to it,
// InvalidType for another dtype.
Result<MatrixView> addend_of(const slim::SlimTensor* self, const slim::SlimTensor& out,
                             const MatrixView& shape);

}  // namespace pteron::cuda
