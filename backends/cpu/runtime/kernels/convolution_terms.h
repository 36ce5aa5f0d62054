// The terms of one output of a convolution, in summation order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"

namespace pteron::cpu {

// Calls term(k, channel, ky, kx) for each, k counting from 0. The channel is the innermost loop if
// `channels_inside`, else the outermost.
template <typename Term>
void for_each_term(const ConvolutionShape& s, bool channels_inside, const Term& term) {
  const int64_t channels = s.in_channels / s.groups;
  int64_t k = 0;
  for (int64_t outer = 0; outer < (channels_inside ? 1 : channels); ++outer) {
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
        for (int64_t inner = 0; inner < (channels_inside ? channels : 1); ++inner, ++k) {
          term(k, outer + inner, ky, kx);
        }
      }
    }
  }
}

// The start of part `i` of [0, size) in `parts` nearly equal parts.
inline int64_t part_begin(int64_t size, int64_t parts, int64_t i) { return size * i / parts; }

inline int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Minimum multiplications per thread.
inline constexpr int64_t kTermsPerThread = 128 * 1024;

inline int64_t grain_of(int64_t terms_per_task) {
  return kTermsPerThread / std::max<int64_t>(terms_per_task, 1) + 1;
}

}  // namespace pteron::cpu
