// The sizes of a pooling, from what comes over the C ABI; the same on every device.
//
//   PTERON_ASSIGN_OR_RETURN(PoolingShape shape, pooling_shape(*self, 2));
//   PTERON_RETURN_IF_ERROR(read_windows(*self, 2, {{kernel, n}, {stride, m}, ...}, &shape));
//   // shape.out are the sizes of the result
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/pooling_shape.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::aoti {

using slim::PoolingShape;

// Numbers as the C ABI passes them; borrowed.
struct IntArrayRef {
  const int64_t* values = nullptr;
  int64_t length = 0;
};

struct PoolingWindows {
  IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

// The sizes of an input with `dims` (2 or 3) spatial dimensions, with channels and perhaps a batch
// before them. InvalidArgument for another rank or an empty dimension.
Result<PoolingShape> pooling_shape(const slim::SlimTensor& self, size_t dims);

// Result sizes that were asked for. A list of one number holds for every dimension.
Error read_adaptive(IntArrayRef output_size, size_t dims, PoolingShape* shape);

// Windows that slide, and the result sizes that follow. An empty stride is the kernel's size.
Error read_windows(const slim::SlimTensor& self, size_t dims, const PoolingWindows& windows,
                   PoolingShape* shape);

// The sizes of the result, of `self`'s rank; returns that.
size_t pooled_sizes(const slim::SlimTensor& self, size_t dims, const PoolingShape& shape,
                    int64_t* sizes);

}  // namespace pteron::aoti
