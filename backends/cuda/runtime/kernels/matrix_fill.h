// Elements of a column-major matrix of float or double by where they stand, and products of diagonals.
// Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// Zeros outside the triangle.
template <typename T>
Error keep_triangle(T* a, int64_t rows, int64_t cols, bool upper, cudaStream_t stream);

template <typename T>
Error make_identity(T* a, int64_t rows, int64_t cols, cudaStream_t stream);

// Of LU factors of (n, n) and pivots that count from 1: the determinant, its sign, and the logarithm
// of its size; each may be null.
template <typename T>
Error determinant(const T* lu, const int32_t* pivots, int64_t n, T* value, T* sign, T* logarithm,
                  cudaStream_t stream);

}  // namespace pteron::cuda
