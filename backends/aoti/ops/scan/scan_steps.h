// Binary operations of a scan over one row.
#pragma once

#include <cmath>

#include "pteron/backends/aoti/ops/host_device.h"

namespace pteron::aoti {

// log(exp(a) + exp(b)), without overflow.
template <typename T>
PTERON_HOST_DEVICE T log_of_exp_sum(T a, T b) {
  if (a != a || b != b) return a + b;
  const T high = a > b ? a : b, low = a > b ? b : a;
  return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
}

// Whether `next` replaces the min or max so far: the last of equal elements does, and so does NaN,
// which then propagates.
template <typename T>
PTERON_HOST_DEVICE bool replaces_extreme(bool is_maximum, T held, T next) {
  return next != next || (held == held && (is_maximum ? next >= held : next <= held));
}

}  // namespace pteron::aoti
