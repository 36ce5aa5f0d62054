#include "pteron/backends/aoti/slim/core/layout.h"

#include <algorithm>
#include <utility>

namespace pteron::slim {
namespace {

// Dimensions from the innermost to the outermost: channels, then the last spatial one and so on,
// and the batch. Returns how many there are; 0 for a rank that has no such layout.
size_t innermost_first(size_t rank, size_t* order) {
  if (rank < 3 || rank > 5) return 0;
  size_t n = 0;
  order[n++] = 1;
  for (size_t d = rank; d-- > 2;) order[n++] = d;
  order[n++] = 0;
  return n;
}

// Dense strides; `order` from the innermost dimension to the outermost. Unsigned, since sizes that
// are not checked yet may overflow.
void packed_strides(Span<const int64_t> sizes, const size_t* order, int64_t* strides) {
  uint64_t stride = 1;
  for (size_t k = 0; k < sizes.size(); ++k) {
    strides[order[k]] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(sizes[order[k]], 1));
  }
}

// Negative: dimension `x` goes inside `y`; positive: outside; 0: undetermined by the operands.
int compare(size_t x, size_t y, Span<const int64_t> sizes,
            std::initializer_list<const int64_t*> operands) {
  for (const int64_t* strides : operands) {
    const int64_t a = strides[x], b = strides[y];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[x] > sizes[y]) return 1;
  }
  return 0;
}

bool has_channels_last_strides(const SlimTensor& tensor) {
  size_t order[5];
  const size_t n = innermost_first(tensor.dim(), order);
  if (n == 0 || tensor.stride(1) == 0) return false;
  int64_t least = 0;
  for (size_t k = 0; k < n; ++k) {
    const size_t d = order[k];
    if (tensor.size(d) == 0 || tensor.stride(d) < least) return false;
    // With spatial size 1, a batch stride equal to the number of channels is ambiguous.
    if (d == 0 && least == tensor.stride(1)) return false;
    const int64_t size = std::max<int64_t>(tensor.size(d), 1);
    if (__builtin_mul_overflow(tensor.stride(d), size, &least)) return false;
  }
  return true;
}

}  // namespace

bool is_channels_last(const SlimTensor& tensor) {
  return tensor.dim() > 3 && has_channels_last_strides(tensor);
}

bool is_convolution_channels_last(const SlimTensor& input, const SlimTensor& weight) {
  if (input.dim() == 3) return has_channels_last_strides(weight);
  return is_channels_last(input) || is_channels_last(weight);
}

void channels_last_strides(Span<const int64_t> sizes, int64_t* strides) {
  size_t order[5];
  if (innermost_first(sizes.size(), order) == 0) return contiguous_strides(sizes, strides);
  packed_strides(sizes, order, strides);
}

void ordered_strides(Span<const int64_t> sizes,
                     std::initializer_list<const int64_t*> operand_strides, int64_t* strides) {
  const size_t n = sizes.size();
  size_t order[kMaxDims];  // innermost first
  for (size_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  // Insertion sort that skips incomparable dimensions, since the order is not total.
  for (size_t i = 1; i < n; ++i) {
    size_t at = i;
    for (size_t k = i; k-- > 0;) {
      const int comparison = compare(order[k], order[at], sizes, operand_strides);
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(order[k], order[at]);
        at = k;
      }
    }
  }
  packed_strides(sizes, order, strides);
}

}  // namespace pteron::slim
