// Tensors as rows along one dimension, shared by row-wise families.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

// Rows of two tensors along one dimension, which has size 1 in these strides.
#define PTERON_ROW_PARAMS                          \
  struct RowParams {                               \
    int64_t dims, length, count;                   \
    int64_t sizes[16], in[16], out[16];            \
    int64_t in_step, out_step;                     \
    int64_t kind; /* the operator of the family */ \
  };
PTERON_ROW_PARAMS

struct Rows {
  RowParams params{};
  uint64_t count = 1;  // number of rows
};
Rows rows_along(const slim::SlimTensor& in, const slim::SlimTensor& out, size_t dim);

// RowParams, row_of() and is_less() as Metal source, which launch() puts before every source.
extern const char kRowText[];

}  // namespace pteron::metal
