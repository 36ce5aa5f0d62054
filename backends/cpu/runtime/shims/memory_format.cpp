#include "backends/cpu/runtime/shims/memory_format.h"

namespace pteron::cpu {
namespace {

// Dimensions from the innermost to the outermost: channels, then the last spatial one and so on,
// and the batch. Returns how many there are; 0 for a rank that has no such layout.
size_t innermost_first(size_t rank, size_t* order) {
  if (rank != 4 && rank != 5) return 0;
  size_t n = 0;
  order[n++] = 1;
  for (size_t d = rank; d-- > 2;) order[n++] = d;
  order[n++] = 0;
  return n;
}

}  // namespace

bool is_channels_last(const slim::SlimTensor& tensor) {
  size_t order[5];
  const size_t n = innermost_first(tensor.dim(), order);
  if (n == 0 || tensor.stride(1) == 0) return false;
  int64_t least = 0;
  for (size_t k = 0; k < n; ++k) {
    const size_t d = order[k];
    if (tensor.size(d) == 0 || tensor.stride(d) < least) return false;
    // With one position per image, a batch as far apart as its channels tells nothing.
    if (d == 0 && least == tensor.stride(1)) return false;
    least = tensor.stride(d) * (tensor.size(d) > 1 ? tensor.size(d) : 1);
  }
  return true;
}

Result<slim::TensorPtr> make_channels_last(Span<const int64_t> sizes, slim::DType dtype) {
  size_t order[5];
  const size_t n = innermost_first(sizes.size(), order);
  if (n == 0) return slim::make_tensor(sizes, dtype);
  int64_t strides[5];
  int64_t stride = 1;
  for (size_t k = 0; k < n; ++k) {
    strides[order[k]] = stride;
    stride *= sizes[order[k]] > 0 ? sizes[order[k]] : 1;
  }
  return slim::make_tensor(sizes, Span<const int64_t>(strides, n), dtype, Device{});
}

}  // namespace pteron::cpu
