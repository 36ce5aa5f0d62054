// Copies elements between two strided tensors on one device, in one kernel.
//
//   StridedCopy copy;
//   copy.target = y; copy.source = x; copy.item_nbytes = 2;
//   copy.add_dim(rows, y_row_stride, x_row_stride);     // outermost first
//   copy.add_dim(cols, 1, x_col_stride);
//   PTERON_RETURN_IF_ERROR(strided_copy(copy, stream));
//
// Strides in elements; a source stride of 0 broadcasts. Mergeable dimensions are coalesced, and
// contiguous runs are copied 16 bytes at a time where alignment allows. Asynchronous on `stream`.
// Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

inline constexpr int kMaxCopyDims = 16;

struct StridedCopy {
  void* target = nullptr;
  const void* source = nullptr;  // null fills the target with zeros
  size_t item_nbytes = 0;        // 1, 2, 4, 8 or 16
  int dims = 0;
  int64_t sizes[kMaxCopyDims];
  int64_t target_strides[kMaxCopyDims];
  int64_t source_strides[kMaxCopyDims];

  void add_dim(int64_t size, int64_t target_stride, int64_t source_stride) {
    sizes[dims] = size;
    target_strides[dims] = target_stride;
    source_strides[dims] = source_stride;
    ++dims;
  }
};

// InvalidArgument for another item size or more than kMaxCopyDims dimensions. No elements: nothing
// to do.
Error strided_copy(const StridedCopy& copy, cudaStream_t stream);

// The same copy with dimensions of size 1 dropped, sorted by decreasing target stride, coalesced,
// and elements widened to up to 16 bytes. Pure; used by strided_copy.
StridedCopy simplify(const StridedCopy& copy);

}  // namespace pteron::cuda
