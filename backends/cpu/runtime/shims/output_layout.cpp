#include "backends/cpu/runtime/shims/output_layout.h"

#include <algorithm>
#include <utility>

namespace pteron::cpu {
namespace {

// Negative: dimension `x` should lie inside `y`; positive: outside; 0: no operand tells.
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

}  // namespace

Result<slim::TensorPtr> make_ordered_like(Span<const int64_t> sizes, slim::DType dtype,
                                          std::initializer_list<const int64_t*> operand_strides) {
  const size_t n = sizes.size();
  size_t order[slim::kMaxDims];  // innermost first
  for (size_t i = 0; i < n; ++i) order[i] = n - 1 - i;
  // Insertion that steps over dimensions it cannot judge: the order is not total.
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
  int64_t strides[slim::kMaxDims];
  int64_t stride = 1;
  for (size_t i = 0; i < n; ++i) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return slim::make_tensor(sizes, Span<const int64_t>(strides, n), dtype, Device{});
}

Result<slim::TensorPtr> make_ordered_like(const slim::SlimTensor& operand, slim::DType dtype) {
  return make_ordered_like(operand.sizes(), dtype, {operand.strides().data()});
}

Result<Broadcast> broadcast(const slim::SlimTensor& a, const slim::SlimTensor& b) {
  Broadcast result;
  result.dim = std::max(a.dim(), b.dim());
  for (size_t i = 0; i < result.dim; ++i) {
    // Counted from the back.
    const size_t at = result.dim - 1 - i;
    const int64_t x = i < a.dim() ? a.size(a.dim() - 1 - i) : 1;
    const int64_t y = i < b.dim() ? b.size(b.dim() - 1 - i) : 1;
    PTERON_CHECK_OR_RETURN(x == y || x == 1 || y == 1, Error::InvalidArgument,
                           "%s and %s do not broadcast", a.describe().c_str(),
                           b.describe().c_str());
    result.sizes[at] = x == 1 ? y : x;
    result.a[at] = x == 1 ? 0 : a.stride(a.dim() - 1 - i);
    result.b[at] = y == 1 ? 0 : b.stride(b.dim() - 1 - i);
  }
  return result;
}

}  // namespace pteron::cpu
