// The steps of a scan, for the numbers of one row.
#pragma once

#include <cmath>

#include "pteron/backends/aoti/ops/host_device.h"

namespace pteron::aoti {

// log(exp(a) + exp(b)), without leaving the range of T.
template <typename T>
PTERON_HOST_DEVICE T log_of_exp_sum(T a, T b) {
  if (a != a || b != b) return a + b;
  const T high = a > b ? a : b, low = a > b ? b : a;
  return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
}

// Whether `next` takes the place of the extreme of the numbers before it: the last of equal ones
// does, and a NaN, which then stays.
template <typename T>
PTERON_HOST_DEVICE bool replaces_extreme(bool is_maximum, T held, T next) {
  return next != next || (held == held && (is_maximum ? next >= held : next <= held));
}

}  // namespace pteron::aoti
