#include "pteron/backends/aoti/ops/distance/distance.h"

#include <algorithm>
#include <cmath>

#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// The p-norm of a - b.
template <typename T>
T distance_between(const T* a, const T* b, int64_t length, double p) {
  T sum = 0;
  if (p == 0) {
    for (int64_t i = 0; i < length; ++i) sum += a[i] != b[i] ? T(1) : T(0);
  } else if (p == 1) {
    for (int64_t i = 0; i < length; ++i) sum += std::abs(a[i] - b[i]);
  } else if (p == 2) {
    for (int64_t i = 0; i < length; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    sum = std::sqrt(sum);
  } else if (std::isinf(p)) {
    for (int64_t i = 0; i < length; ++i) {
      const T difference = std::abs(a[i] - b[i]);
      if (difference > sum || difference != difference) sum = difference;
    }
  } else {
    for (int64_t i = 0; i < length; ++i) sum += std::pow(std::abs(a[i] - b[i]), static_cast<T>(p));
    sum = std::pow(sum, static_cast<T>(1 / p));
  }
  return sum;
}

template <typename T>
Error fill(const aoti::DistanceCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr a, slim::contiguous_tensor(call.x1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr b, slim::contiguous_tensor(call.x2));
  if (call.out.numel() == 0) return Error::Ok;
  const size_t rank = a->dim();
  const int64_t length = a->size(rank - 1), rows = a->size(rank - 2), cols = b->size(rank - 2);
  const int64_t lines = call.each_once ? rows : call.out.numel() / cols;
  parallel_for(lines, 16384 / std::max<int64_t>(cols * length, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t line = begin; line < end; ++line) {
                   const T* left = a->data_as<const T>() + line * length;
                   const T* right = b->data_as<const T>() + line / rows * cols * length;
                   // The rows of pairs before it have cols - 1, cols - 2, ... entries.
                   const int64_t first =
                       line * cols - (call.each_once ? (line + 1) * (line + 2) / 2 : int64_t{0});
                   for (int64_t j = call.each_once ? line + 1 : 0; j < cols; ++j) {
                     call.out.data_as<T>()[first + j] =
                         distance_between<T>(left, right + j * length, length, call.p);
                   }
                 }
               });
  return Error::Ok;
}

}  // namespace

Error distance(const aoti::DistanceCall& call) {
  return call.out.dtype() == DType::Float ? fill<float>(call) : fill<double>(call);
}

}  // namespace pteron::cpu
