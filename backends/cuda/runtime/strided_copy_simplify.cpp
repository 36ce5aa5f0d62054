#include <algorithm>

#include "pteron/backends/cuda/runtime/strided_copy.h"

namespace pteron::cuda {
namespace {

// How many neighbouring items of the innermost dimension can move as one.
int64_t widening(const StridedCopy& copy) {
  if (copy.dims == 0) return 1;
  const int last = copy.dims - 1;
  if (copy.target_strides[last] != 1 || (copy.source && copy.source_strides[last] != 1)) return 1;
  const auto item = static_cast<int64_t>(copy.item_nbytes);
  int64_t factor = 16 / item;
  const auto divides = [&](int64_t number) { return number % factor == 0; };
  const auto aligned = [&](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(factor * item) == 0;
  };
  const auto fits = [&] {
    if (!divides(copy.sizes[last]) || !aligned(copy.target)) return false;
    if (copy.source && !aligned(copy.source)) return false;
    for (int i = 0; i < last; ++i) {
      if (!divides(copy.target_strides[i])) return false;
      if (copy.source && !divides(copy.source_strides[i])) return false;
    }
    return true;
  };
  while (factor > 1 && !fits()) factor /= 2;
  return factor;
}

}  // namespace

StridedCopy simplify(const StridedCopy& copy) {
  int order[kMaxCopyDims];
  int kept = 0;
  for (int i = 0; i < copy.dims; ++i) {
    if (copy.sizes[i] != 1) order[kept++] = i;
  }
  std::stable_sort(order, order + kept,
                   [&](int a, int b) { return copy.target_strides[a] > copy.target_strides[b]; });
  StridedCopy simple;
  simple.target = copy.target;
  simple.source = copy.source;
  simple.item_nbytes = copy.item_nbytes;
  for (int i = 0; i < kept; ++i) {
    const int64_t size = copy.sizes[order[i]];
    const int64_t target_stride = copy.target_strides[order[i]];
    const int64_t source_stride = copy.source ? copy.source_strides[order[i]] : 0;
    if (simple.dims > 0) {
      const int outer = simple.dims - 1;
      const bool joins = simple.target_strides[outer] == size * target_stride &&
                         (!copy.source || simple.source_strides[outer] == size * source_stride);
      if (joins) {
        simple.sizes[outer] *= size;
        simple.target_strides[outer] = target_stride;
        simple.source_strides[outer] = source_stride;
        continue;
      }
    }
    simple.add_dim(size, target_stride, source_stride);
  }
  if (const int64_t factor = widening(simple); factor > 1) {
    const int last = simple.dims - 1;
    simple.item_nbytes *= static_cast<size_t>(factor);
    simple.sizes[last] /= factor;
    for (int i = 0; i < last; ++i) {
      simple.target_strides[i] /= factor;
      simple.source_strides[i] /= factor;
    }
  }
  return simple;
}

}  // namespace pteron::cuda
