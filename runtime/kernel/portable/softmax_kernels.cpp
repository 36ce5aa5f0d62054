// Softmax along a dimension. Slices are read three times (largest, sum, result) and never kept.
#include <algorithm>
#include <cmath>

#include "pteron/runtime/kernel/portable/kernels.h"
#include "pteron/runtime/kernel/portable/slices.h"

namespace pteron::kernels {
namespace {

template <typename Number>
void softmax_slice(const View& from, const View& to, int64_t count, bool logarithm) {
  Number largest = -std::numeric_limits<Number>::infinity();
  for_each_block<Number>(from, [&](const Number* numbers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) largest = numbers[i] > largest ? numbers[i] : largest;
  });
  // Nothing but minus infinity: the sum below is NaN, as it should be.
  double sum = 0;
  for_each_block<Number>(from, [&](const Number* numbers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) sum += std::exp(numbers[i] - largest);
  });
  const auto scale = static_cast<Number>(logarithm ? std::log(sum) : 1 / sum);
  Number buffer[kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    const Number* numbers =
        load_block(from.dtype, from.data + i * from.strides[0], from.strides[0], n, buffer);
    for (int64_t j = 0; j < n; ++j) {
      const Number x = numbers[j] - largest;
      buffer[j] = logarithm ? x - scale : std::exp(x) * scale;
    }
    store_block(to.dtype, to.data + i * to.strides[0], to.strides[0], n, buffer);
  }
}

Error softmax(const Tensor& self, int64_t dim, bool logarithm, Tensor& out) {
  PTERON_CHECK_OR_RETURN(is_floating(self.dtype()), Error::InvalidType,
                         "not defined for %s, expected a floating type", name_of(self.dtype()));
  PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::along(self, dim, out));
  while (slices.next()) {
    if (self.dtype() == ScalarType::Double) {
      softmax_slice<double>(slices.slice(), slices.result(), slices.numel(), logarithm);
    } else {
      softmax_slice<float>(slices.slice(), slices.result(), slices.numel(), logarithm);
    }
  }
  return Error::Ok;
}

}  // namespace

PTERON_DEFINE_KERNEL(softmax_out, (const Tensor& self, int64_t dim, Ignored, Tensor& out)) {
  return softmax(self, dim, false, out);
}
PTERON_DEFINE_KERNEL(log_softmax_out, (const Tensor& self, int64_t dim, Ignored, Tensor& out)) {
  return softmax(self, dim, true, out);
}

}  // namespace pteron::kernels
