// What a bin of a region of interest has of an image, and the overlap of boxes; for one bin of all
// channels on the CPU, of one channel in a CUDA thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "pteron/backends/aoti/ops/host_device.h"

namespace pteron::aoti {

struct RegionPooling {
  bool samples;             // average of bilinear samples; else of elements
  bool position_sensitive;  // each bin has channels of its own; else roi_align or roi_pool
  bool aligned;             // roi_align: half-pixel offset, and regions may be less than a pixel
  int64_t sampling_ratio;   // samples of a bin along a dimension; by its size if not positive
  double spatial_scale;
  int64_t bins[2];  // height, width
  // Of the input, in elements.
  int64_t images, channels, height, width;
  int64_t image_stride, channel_stride, strides[2];
};

// Calls `visit(offset, weight, 0)` for the elements that a sample at `y`, `x` is interpolated from.
// There are none beside the image.
template <typename T, typename Visit>
PTERON_HOST_DEVICE void visit_sample(const RegionPooling& p, T y, T x, const Visit& visit) {
  const auto height = static_cast<T>(p.height), width = static_cast<T>(p.width);
  if (y != y || x != x) return visit(0, y + x, 0);  // NaN
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return;
  y = y < 0 ? T(0) : y < height - 1 ? y : height - 1;
  x = x < 0 ? T(0) : x < width - 1 ? x : width - 1;
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const T low_y = y - static_cast<T>(top), low_x = x - static_cast<T>(left);
  const int64_t down = top + 1 < p.height ? p.strides[0] : 0;
  const int64_t right = left + 1 < p.width ? p.strides[1] : 0;
  const int64_t at = top * p.strides[0] + left * p.strides[1];
  visit(at, (1 - low_y) * (1 - low_x), 0);
  visit(at + right, (1 - low_y) * low_x, 0);
  visit(at + down, low_y * (1 - low_x), 0);
  visit(at + down + right, low_y * low_x, 0);
}

// The part of a bin along one dimension: samples first, first + 1, ... at start + (i + 0.5) step,
// or elements.
template <typename T>
struct BinRange {
  int64_t first, last;  // without last
  T start, step, count;
};

template <typename T>
PTERON_HOST_DEVICE int64_t clamped(T value, int64_t most) {  // 0 for NaN
  return value > 0 ? value < static_cast<T>(most) ? static_cast<int64_t>(value) : most : 0;
}

template <typename T>
PTERON_HOST_DEVICE BinRange<T> bin_range(const RegionPooling& p, int d, T low, T high,
                                         int64_t bin) {
  const auto bins = static_cast<T>(p.bins[d]), scale = static_cast<T>(p.spatial_scale);
  const int64_t size = d == 0 ? p.height : p.width;
  if (!p.samples) {
    const T start = std::round(low * scale), end = std::round(high * scale);
    const T length = end - start + (p.position_sensitive ? 0 : 1);
    const T step = (length > 1 ? length : T(1)) / bins;
    const int64_t most = size - (p.position_sensitive ? 1 : 0);
    return {clamped(std::floor(static_cast<T>(bin) * step) + start, most),
            clamped(std::ceil(static_cast<T>(bin + 1) * step) + start, most), start, step, 0};
  }
  const T offset = p.position_sensitive || p.aligned ? T(0.5) : T(0);
  const T begin = low * scale - offset;
  T length = high * scale - offset - begin;
  if (!p.position_sensitive && !p.aligned && !(length > 1)) length = 1;
  const T size_of_bin = length / bins;
  const T count = p.sampling_ratio > 0 ? static_cast<T>(p.sampling_ratio) : std::ceil(size_of_bin);
  const T start = begin + static_cast<T>(bin) * size_of_bin, step = size_of_bin / count;
  // Samples beside the image count, and are 0.
  const int64_t most = int64_t{1} << 30;
  int64_t first = 0, last = clamped(count, most);
  if (step > 0) {
    first = clamped((-1 - start) / step - 2, last);
    last = clamped((static_cast<T>(size) - start) / step + 2, last);
  } else if (step != step) {  // one NaN is enough; torchvision has no samples of an infinite region
    last = last < most ? clamped(count, 1) : 0;
  }
  return {first, last, start, step, count};
}

// The channel of the input that a bin has of channel `c` of the result.
PTERON_HOST_DEVICE inline int64_t input_channel(const RegionPooling& p, int64_t c, int64_t h,
                                                int64_t w) {
  return p.position_sensitive ? (c * p.bins[0] + h) * p.bins[1] + w : c;
}

// Calls `visit(offset, weight, index)` for what bin (h, w) of a region has of a channel; the index is
// that in a row-major channel. Returns what the sum is divided by: 0 if there are no elements.
template <typename T, typename Visit>
PTERON_HOST_DEVICE T visit_bin(const RegionPooling& p, const T* roi, int64_t h, int64_t w,
                               const Visit& visit) {
  const BinRange<T> y = bin_range<T>(p, 0, roi[2], roi[4], h);
  const BinRange<T> x = bin_range<T>(p, 1, roi[1], roi[3], w);
  for (int64_t i = y.first; i < y.last; ++i) {
    for (int64_t j = x.first; j < x.last; ++j) {
      if (p.samples) {
        visit_sample<T>(p, y.start + (static_cast<T>(i) + T(0.5)) * y.step,
                        x.start + (static_cast<T>(j) + T(0.5)) * x.step, visit);
      } else {
        visit(i * p.strides[0] + j * p.strides[1], T(1), i * p.width + j);
      }
    }
  }
  const T count =
      p.samples ? y.count * x.count : static_cast<T>((y.last - y.first) * (x.last - x.first));
  return p.samples && !p.position_sensitive && !(count > 1) ? T(1) : count;
}

// The image of a region, or -1.
template <typename T>
PTERON_HOST_DEVICE int64_t image_of(const RegionPooling& p, const T* roi) {
  return roi[0] > -1 && roi[0] < static_cast<T>(p.images) ? static_cast<int64_t>(roi[0]) : -1;
}

// Whether the intersection of two boxes (x1, y1, x2, y2) is more than `threshold` of their union.
template <typename T>
PTERON_HOST_DEVICE bool overlaps(const T* a, const T* b, double threshold) {
  const T left = a[0] < b[0] ? b[0] : a[0], top = a[1] < b[1] ? b[1] : a[1];
  const T right = b[2] < a[2] ? b[2] : a[2], bottom = b[3] < a[3] ? b[3] : a[3];
  const T width = right - left, height = bottom - top;
  const T both = (width > 0 ? width : T(0)) * (height > 0 ? height : T(0));
  const T all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both;
  return static_cast<double>(both / all) > threshold;
}

}  // namespace pteron::aoti
