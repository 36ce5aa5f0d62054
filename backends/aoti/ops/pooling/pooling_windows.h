// Pooling windows and their reductions, shared by C++, CUDA and Metal shader text.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/ops/host_device.h"

namespace pteron::aoti {

// Arrays of three are for depth, height, width; a missing dimension has size 1.
struct PoolingWindows {
  bool
      adaptive;  // adaptive pooling: windows are nearly equal parts of the input, given by in and out
  int64_t batch, channels;
  int64_t in[3], out[3];
  int64_t window[3], stride[3], padding[3], dilation[3];
  // Batch, channels, depth, height, width.
  int64_t in_strides[5], out_strides[5];
  // Average pooling. Divisor 0: the number of positions in the window, with or without padding.
  bool count_padding;
  int64_t divisor;
};

// The part of the input that one output element reads.
struct PoolingWindow {
  int64_t begin[3], end[3], step[3];
  int64_t padded;  // number of positions, including padding
};

PTERON_HOST_DEVICE inline PoolingWindow window_at(PTERON_CONSTANT PoolingWindows& p, int64_t depth,
                                                  int64_t row, int64_t column) {
  const int64_t at[3] = {depth, row, column};
  PoolingWindow w;
  w.padded = 1;
  for (int d = 0; d < 3; ++d) {
    if (p.adaptive) {
      w.begin[d] = at[d] * p.in[d] / p.out[d];
      w.end[d] = ((at[d] + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
      w.step[d] = 1;
      w.padded *= w.end[d] - w.begin[d];
      continue;
    }
    int64_t begin = at[d] * p.stride[d] - p.padding[d];
    const int64_t end = begin + (p.window[d] - 1) * p.dilation[d] + 1;
    const int64_t limit = p.in[d] + p.padding[d];
    w.padded *= (end < limit ? end : limit) - begin;
    if (begin < 0) begin += (-begin + p.dilation[d] - 1) / p.dilation[d] * p.dilation[d];
    w.begin[d] = begin;
    w.end[d] = end < p.in[d] ? end : p.in[d];
    w.step[d] = p.dilation[d];
  }
  return w;
}

// Average of a window in the plane at `plane`, accumulated as Sum.
template <typename Sum, typename Element>
PTERON_HOST_DEVICE Sum average_in(PTERON_CONSTANT PoolingWindows& p, PoolingWindow w,
                                  PTERON_DEVICE_MEMORY const Element* plane) {
  Sum sum = 0;
  int64_t inside = 0;
  for (int64_t z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      const int64_t row = z * p.in_strides[2] + y * p.in_strides[3];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += w.step[2]) {
        sum += static_cast<Sum>(plane[row + x * p.in_strides[4]]);
        ++inside;
      }
    }
  }
  const int64_t count = p.divisor != 0 ? p.divisor : p.count_padding ? w.padded : inside;
  return inside == 0 ? Sum(0) : sum / static_cast<Sum>(count);
}

// Maximum of the window, `least` if it is empty: the first of equal elements, or a NaN. `index`:
// its position in the plane.
template <typename Sum, typename Element>
PTERON_HOST_DEVICE Sum maximum_in(PTERON_CONSTANT PoolingWindows& p, PoolingWindow w,
                                  PTERON_DEVICE_MEMORY const Element* plane, Sum least,
                                  PTERON_THREAD int64_t& index) {
  Sum held = least;
  index = (w.begin[0] * p.in[1] + w.begin[1]) * p.in[2] + w.begin[2];
  for (int64_t z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      const int64_t row = z * p.in_strides[2] + y * p.in_strides[3];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += w.step[2]) {
        const Sum found = static_cast<Sum>(plane[row + x * p.in_strides[4]]);
        if (found > held || found != found) {
          held = found;
          index = (z * p.in[1] + y) * p.in[2] + x;
        }
      }
    }
  }
  return held;
}

}  // namespace pteron::aoti
