// Tensors as rows along one dimension: what families that work on rows have in common.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// Rows of two tensors along one dimension, which has size 1 here.
struct RowParams {
  int64_t dims, length, count;
  int64_t sizes[kMostDims], in[kMostDims], out[kMostDims];
  int64_t in_step, out_step;
  int64_t kind;  // which of the family
};

struct Rows {
  RowParams params{};
  uint64_t count = 1;  // of rows
};
Rows rows_along(const slim::SlimTensor& in, const slim::SlimTensor& out, size_t dim);

// RowParams, row_of() and is_less() in Metal's language; launch() puts it before every source.
extern const char kRowText[];

}  // namespace pteron::metal
