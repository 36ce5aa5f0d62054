// Comparison for sorting: NaN sorts last.
#pragma once

#include <cstdint>
#include <type_traits>

#include "pteron/backends/aoti/slim/core/numeric.h"

namespace pteron::cpu {

template <typename T>
inline bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return (void)value, false;
  } else {
    const slim::accumulate_t<T> x = value;
    return x != x;
  }
}

// NaN is the largest value and equal to NaN.
template <typename T>
inline bool less(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    const slim::accumulate_t<T> x = a, y = b;
    return x < y || (y != y && x == x);
  }
}

template <typename T>
struct Ranked {
  T value;
  int64_t index;
};

// Ascending or descending; ties by index.
template <typename T>
struct RankedBefore {
  bool descending;
  bool operator()(const Ranked<T>& a, const Ranked<T>& b) const {
    if (descending ? less(b.value, a.value) : less(a.value, b.value)) return true;
    if (descending ? less(a.value, b.value) : less(b.value, a.value)) return false;
    return a.index < b.index;
  }
};

}  // namespace pteron::cpu
