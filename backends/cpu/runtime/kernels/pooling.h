// Pooling of one image plane, over depth, height and width; those that a tensor lacks have size 1.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/pooling_shape.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"

namespace pteron::cpu {

using slim::PoolingShape;

// Begin (inclusive) and end of a window.
struct Window {
  std::array<int64_t, 3> begin, end;
};

// The i-th of `out` nearly equal parts of `in`.
inline int64_t adaptive_begin(int64_t i, int64_t out, int64_t in) { return i * in / out; }
inline int64_t adaptive_end(int64_t i, int64_t out, int64_t in) {
  return ((i + 1) * in + out - 1) / out;
}

// Calls body(output position, z, y, x) for the outputs in order.
template <typename Body>
void for_each_output(const PoolingShape& s, const Body& body) {
  int64_t out_index = 0;
  for (int64_t z = 0; z < s.out[0]; ++z) {
    for (int64_t y = 0; y < s.out[1]; ++y) {
      for (int64_t x = 0; x < s.out[2]; ++x) body(out_index++, std::array<int64_t, 3>{z, y, x});
    }
  }
}

template <typename T>
slim::accumulate_t<T> sum_of(const T* in, const PoolingShape& s, const Window& w) {
  slim::accumulate_t<T> sum = 0;
  for (int64_t z = w.begin[0]; z < w.end[0]; ++z) {
    for (int64_t y = w.begin[1]; y < w.end[1]; ++y) {
      const T* row = in + (z * s.in[1] + y) * s.in[2];
      for (int64_t x = w.begin[2]; x < w.end[2]; ++x)
        sum += static_cast<slim::accumulate_t<T>>(row[x]);
    }
  }
  return sum;
}

template <typename T>
void adaptive_average(const PoolingShape& s, const T* in, T* out) {
  for_each_output(s, [&](int64_t out_index, const std::array<int64_t, 3>& at) {
    Window w;
    int64_t count = 1;
    for (int d = 0; d < 3; ++d) {
      w.begin[d] = adaptive_begin(at[d], s.out[d], s.in[d]);
      w.end[d] = adaptive_end(at[d], s.out[d], s.in[d]);
      count *= w.end[d] - w.begin[d];
    }
    out[out_index] = static_cast<T>(sum_of(in, s, w) / static_cast<slim::accumulate_t<T>>(count));
  });
}

// `divisor` 0: the number of positions of the window, those in the padding counted or not.
template <typename T>
void average(const PoolingShape& s, bool count_padding, int64_t divisor, const T* in, T* out) {
  for_each_output(s, [&](int64_t out_index, const std::array<int64_t, 3>& at) {
    Window w;
    int64_t padded = 1, inside = 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t begin = at[d] * s.stride[d] - s.padding[d];
      const int64_t end = std::min(begin + s.kernel[d], s.in[d] + s.padding[d]);
      padded *= end - begin;
      w.begin[d] = std::max<int64_t>(begin, 0);
      w.end[d] = std::min(end, s.in[d]);
      inside *= std::max<int64_t>(w.end[d] - w.begin[d], 0);
    }
    if (inside == 0) {
      out[out_index] = static_cast<T>(0.0f);
      return;
    }
    const int64_t count = divisor ? divisor : count_padding ? padded : inside;
    out[out_index] = static_cast<T>(sum_of(in, s, w) / static_cast<slim::accumulate_t<T>>(count));
  });
}

// The first greatest element, NaN before all; `index` counts within the plane.
template <typename T, typename Position>
void greatest_of(const T* in, const PoolingShape& s, const Window& w, const Position& step,
                 T* value, int64_t* index) {
  using Wide = slim::accumulate_t<T>;
  int64_t best = (w.begin[0] * s.in[1] + w.begin[1]) * s.in[2] + w.begin[2];
  Wide held = std::is_integral_v<T> ? std::numeric_limits<Wide>::lowest()
                                    : -std::numeric_limits<Wide>::infinity();
  for (int64_t z = w.begin[0]; z < w.end[0]; z += step[0]) {
    for (int64_t y = w.begin[1]; y < w.end[1]; y += step[1]) {
      const int64_t row = (z * s.in[1] + y) * s.in[2];
      for (int64_t x = w.begin[2]; x < w.end[2]; x += step[2]) {
        const Wide found = in[row + x];
        if (found > held || found != found) {
          held = found;
          best = row + x;
        }
      }
    }
  }
  *value = static_cast<T>(held);
  *index = best;
}

template <typename T>
void adaptive_maximum(const PoolingShape& s, const T* in, T* out, int64_t* indices) {
  for_each_output(s, [&](int64_t out_index, const std::array<int64_t, 3>& at) {
    Window w;
    for (int d = 0; d < 3; ++d) {
      w.begin[d] = adaptive_begin(at[d], s.out[d], s.in[d]);
      w.end[d] = adaptive_end(at[d], s.out[d], s.in[d]);
    }
    greatest_of(in, s, w, std::array<int64_t, 3>{1, 1, 1}, out + out_index, indices + out_index);
  });
}

template <typename T>
void maximum(const PoolingShape& s, const T* in, T* out, int64_t* indices) {
  for_each_output(s, [&](int64_t out_index, const std::array<int64_t, 3>& at) {
    Window w;
    for (int d = 0; d < 3; ++d) {
      int64_t begin = at[d] * s.stride[d] - s.padding[d];
      w.end[d] = std::min(begin + (s.kernel[d] - 1) * s.dilation[d] + 1, s.in[d]);
      while (begin < 0) begin += s.dilation[d];
      w.begin[d] = begin;
    }
    greatest_of(in, s, w, s.dilation, out + out_index, indices + out_index);
  });
}

}  // namespace pteron::cpu
