#include "pteron/runtime/core/strided_copy.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace pteron {
namespace {

template <size_t kSize>
void copy_runs(const StridedPlan& plan, void* target_data, const void* source_data) {
  plan.for_each_run([=](int64_t target, int64_t source, int64_t count, int64_t target_stride,
                        int64_t source_stride) {
    constexpr auto size = static_cast<int64_t>(kSize);
    auto* const to = static_cast<std::byte*>(target_data) + target * size;
    const auto* const from = static_cast<const std::byte*>(source_data) + source * size;
    if (target_stride == 1 && source_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * kSize);
    } else if (target_stride == 1) {
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * size, from + i * source_stride * size, kSize);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * target_stride * size, from + i * source_stride * size, kSize);
      }
    }
  });
}

}  // namespace

StridedPlan::StridedPlan(const int64_t* target_strides, const int64_t* source_strides,
                         const int64_t* dim_sizes, size_t dims) {
  size_t order[kMaxTensorDims];
  size_t n = 0;
  for (size_t i = 0; i < dims; ++i) {
    if (dim_sizes[i] != 1) order[n++] = i;
  }
  // Insertion sort: there are few, and mostly in order.
  const auto step = [&](size_t i) { return std::abs(target_strides[i]); };
  for (size_t i = 1; i < n; ++i) {
    for (size_t k = i; k > 0 && step(order[k - 1]) < step(order[k]); --k) {
      std::swap(order[k - 1], order[k]);
    }
  }
  for (size_t k = 0; k < n; ++k) {
    const size_t i = order[k];
    const size_t last = dim - 1;
    if (dim > 0 && target[last] == dim_sizes[i] * target_strides[i] &&
        source[last] == dim_sizes[i] * source_strides[i]) {
      sizes[last] *= dim_sizes[i];
    } else {
      sizes[dim++] = dim_sizes[i];
    }
    target[dim - 1] = target_strides[i];
    source[dim - 1] = source_strides[i];
  }
}

void copy_strided(void* target, const int64_t* target_strides, const void* source,
                  const int64_t* source_strides, const int64_t* sizes, size_t dim,
                  size_t item_size) {
  const StridedPlan plan(target_strides, source_strides, sizes, dim);
  switch (item_size) {
    case 1:
      return copy_runs<1>(plan, target, source);
    case 2:
      return copy_runs<2>(plan, target, source);
    case 4:
      return copy_runs<4>(plan, target, source);
    case 8:
      return copy_runs<8>(plan, target, source);
    default:
      return copy_runs<16>(plan, target, source);
  }
}

}  // namespace pteron
