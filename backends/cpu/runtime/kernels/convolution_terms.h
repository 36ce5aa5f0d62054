// The terms of one output of a convolution, in summation order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {

inline int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls term(k, channel, ky, kx) for each of one plane of the kernel, k counting from 0. The channel is the innermost loop if
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

// Where the terms of a sum are, as a ConvolutionTile has them.
struct Terms {
  explicit Terms(int64_t depth) : rows(depth), columns(depth), depth_(depth) {}

  // To be called when all are set. Sums may begin and end at each multiple of `part` terms.
  void find_runs(int64_t part) {
    if (depth_ < 2) return;
    row_step_ = rows.data()[1] - rows.data()[0];
    column_step_ = columns.data()[1] - columns.data()[0];
    run_ = part;
    for (int64_t k = 1; k < depth_; ++k) {
      const bool goes_on = rows.data()[k] - rows.data()[k - 1] == row_step_ &&
                           columns.data()[k] - columns.data()[k - 1] == column_step_;
      if (!goes_on) run_ = std::gcd(run_, k);
    }
  }
  // Of terms [first, first + count).
  void set(int64_t first, int64_t count, ConvolutionTile& tile) const {
    tile.row_offsets = rows.data() + first;
    tile.column_offsets = columns.data() + first;
    tile.depth = count;
    tile.run = run_;
    tile.row_step = row_step_;
    tile.column_step = column_step_;
  }

  Scratch<int32_t> rows, columns;

 private:
  int64_t depth_, run_ = 1, row_step_ = 0, column_step_ = 0;
};

// Kernel positions along dimension `d` that an output at `position` reads inside the image:
// [first, last).
struct Inside {
  Inside(const ConvolutionShape& s, size_t d, int64_t position) {
    const int64_t before = s.padding[d] - position * s.stride[d], end = s.in[d] + before;
    first = std::clamp<int64_t>(divided_up(before, s.dilation[d]), 0, s.kernel[d]);
    last = std::clamp<int64_t>(divided_up(end, s.dilation[d]), first, s.kernel[d]);
  }

  int64_t first, last;
};

// The start of part `i` of [0, size) in `parts` nearly equal parts.
inline int64_t part_begin(int64_t size, int64_t parts, int64_t i) { return size * i / parts; }

// Minimum multiplications per thread.
inline constexpr int64_t kTermsPerThread = 128 * 1024;

// Threads split channels only for a gain of this fraction: the consumer of the output splits its
// rows, and finds them in its core's cache.
inline constexpr double kWorthSharingChannels = 0.07;

inline int64_t grain_of(int64_t terms_per_task) {
  return kTermsPerThread / std::max<int64_t>(terms_per_task, 1) + 1;
}

}  // namespace pteron::cpu
