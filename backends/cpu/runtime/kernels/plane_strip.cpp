#include "pteron/backends/cpu/runtime/kernels/plane_strip.h"

#include <algorithm>
#include <numeric>

namespace pteron::cpu {
namespace {

// Channels read together from a channels-last image: one cache line.
constexpr int64_t kChannelsTogether = 16;

int64_t floor_divided(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

PlaneStrip::Axis::Axis(const ConvolutionShape& s, int d)
    : in(s.in[d]),
      kernel(s.kernel[d]),
      stride(s.stride[d]),
      padding(s.padding[d]),
      dilation(s.dilation[d]),
      period(stride / std::gcd(stride, dilation)),
      phases(std::min(kernel, period)) {}

int64_t PlaneStrip::Axis::reach(int64_t phase) const {
  return step(phase + (kernel - 1 - phase) / period * period);
}

int64_t PlaneStrip::Axis::begin(int64_t phase, int64_t first) const {
  const int64_t before = padding - remainder(phase) - first * stride;
  return before <= 0 ? 0 : (before + stride - 1) / stride;
}

int64_t PlaneStrip::Axis::end(int64_t phase, int64_t first) const {
  return floor_divided(in - 1 + padding - remainder(phase), stride) + 1 - first;
}

PlaneStrip::PlaneStrip(const ConvolutionShape& s, int64_t width, int64_t most_rows)
    : y_(s, 1), x_(s, 2), width_(width) {
  const bool whole = width == s.out[2];
  pitch_ = width;
  int64_t most_needed = 0;
  for (int64_t p = 0; p < x_.phases; ++p) {
    const int64_t needed = width + x_.reach(p);
    most_needed = std::max(most_needed, needed);
    // Columns beyond the pitch overlap the start of the next row, which must be padding.
    const int64_t inside = std::min(x_.end(p, 0), needed);
    pitch_ = std::max({pitch_, whole ? inside : needed, needed - (whole ? x_.begin(p, 0) : 0)});
  }
  tail_ = std::max<int64_t>(most_needed - pitch_, 0);
  reach_ = 0;
  for (int64_t p = 0; p < y_.phases; ++p) reach_ = std::max(reach_, y_.reach(p));
  // An odd number of cache lines, so that planes do not map to the same cache sets.
  const int64_t lines = ((most_rows + reach_) * pitch_ + tail_ + 15) / 16;
  plane_size_ = (lines | 1) * 16;
  channel_size_ = y_.phases * x_.phases * plane_size_;
}

int64_t PlaneStrip::offset(int64_t ky, int64_t kx) const {
  const int64_t plane = ky % y_.period * x_.phases + kx % x_.period;
  return plane * plane_size_ + y_.step(ky) * pitch_ + x_.step(kx);
}

void PlaneStrip::fill(const float* image, const ImageStrides& strides, int64_t channels, int64_t y,
                      int64_t rows, int64_t x, bool end, float* planes) const {
  const int64_t together = strides.x == 1 ? 1 : kChannelsTogether;
  for (int64_t first = 0; first < channels; first += together) {
    const int64_t count = std::min(channels - first, together);
    for (int64_t py = 0; py < y_.phases; ++py) {
      for (int64_t px = 0; px < x_.phases; ++px) {
        fill_phase(image + first * strides.channel, strides, count, py, px, y, rows, x,
                   planes + first * channel_size_ + (py * x_.phases + px) * plane_size_);
      }
    }
  }
  if (end) {
    float* behind = planes + channels * channel_size_;
    std::fill(behind, behind + kMostTileLanes, 0.0f);
  }
}

void PlaneStrip::fill_phase(const float* image, const ImageStrides& strides, int64_t channels,
                            int64_t py, int64_t px, int64_t y, int64_t rows, int64_t x,
                            float* planes) const {
  const int64_t begin = std::min(x_.begin(px, x), pitch_);
  const int64_t end = std::clamp(x_.end(px, x), begin, pitch_);
  const int64_t step = x_.stride * strides.x;
  const int64_t column = (x + begin) * x_.stride + x_.remainder(px) - x_.padding;
  // Fills all padding at once, and what vectors read after the last row: rows are often short.
  const int64_t used = (rows + reach_) * pitch_;
  const int64_t filled = std::min(plane_size_, used + tail_ + kMostTileLanes);
  for (int64_t c = 0; c < channels; ++c) {
    std::fill_n(planes + c * channel_size_, filled, 0.0f);
  }
  int64_t source = y * y_.stride + y_.remainder(py) - y_.padding;
  for (int64_t j = 0; j < rows + reach_; ++j, source += y_.stride) {
    if (source < 0 || source >= y_.in) continue;
    const float* from = image + source * strides.y + column * strides.x;
    float* to = planes + j * pitch_ + begin;
    for (int64_t c = 0; c < channels; ++c, from += strides.channel, to += channel_size_) {
      if (step == 1) {
        std::copy_n(from, end - begin, to);
      } else if (step == 2) {
        for (int64_t i = 0; i < end - begin; ++i) to[i] = from[2 * i];
      } else {
        for (int64_t i = 0; i < end - begin; ++i) to[i] = from[step * i];
      }
    }
  }
}

}  // namespace pteron::cpu
