// A horizontal strip of an image with padding, one plane per channel, laid out so that a kernel
// position is a constant offset: the input of output (y, x) at kernel position (ky, kx) is
//
//   plane[y * pitch() + x + offset(ky, kx)]
//
// for any stride. For strided convolutions rows and columns are sorted into phases: those a
// multiple of the stride apart are adjacent.
//
//   PlaneStrip strip(shape, /*width=*/shape.out[2], /*most_rows=*/14);
//   Scratch<float> planes(strip.size(channels));
//   strip.fill(image, strides, channels, {y, 14}, /*x=*/0, planes.data());
#pragma once

#include <cstdint>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"

namespace pteron::cpu {

class PlaneStrip final {
 public:
  // For strips that `width` columns and at most `most_rows` rows of the output depend on.
  PlaneStrip(const ConvolutionShape& shape, int64_t width, int64_t most_rows);

  // Row stride. Less than a padded row if rows can share the padding between them.
  int64_t pitch() const { return pitch_; }
  int64_t channel_size() const { return channel_size_; }
  // Size for `channels` channels, including vector reads beyond the last output.
  int64_t size(int64_t channels) const { return channels * channel_size_ + kMostTileLanes; }
  int64_t offset(int64_t ky, int64_t kx) const;

  // Copies the channels of `image` that rows [y, y + rows) and columns [x, x + width) of the output
  // depend on. `end`: these are the last channels in memory.
  void fill(const float* image, const ImageStrides& strides, int64_t channels, int64_t y,
            int64_t rows, int64_t x, bool end, float* planes) const;

 private:
  // Kernel positions along one dimension.
  struct Axis {
    Axis(const ConvolutionShape& shape, int d);
    // Phase of position k is k modulo `period`.
    int64_t remainder(int64_t phase) const { return phase * dilation % stride; }
    int64_t step(int64_t k) const { return k * dilation / stride; }
    // The largest step of a phase.
    int64_t reach(int64_t phase) const;
    // Steps of a phase whose input lies inside the image, for outputs from `first`: [begin, end).
    int64_t begin(int64_t phase, int64_t first) const;
    int64_t end(int64_t phase, int64_t first) const;

    int64_t in, kernel, stride, padding, dilation, period, phases;
  };

  // The planes of one phase for some channels, channel_size() apart.
  void fill_phase(const float* image, const ImageStrides& strides, int64_t channels, int64_t py,
                  int64_t px, int64_t y, int64_t rows, int64_t x, float* planes) const;

  Axis y_, x_;
  int64_t width_;
  int64_t pitch_;
  int64_t reach_;  // rows in addition to the output rows
  int64_t tail_;   // floats after the last row
  int64_t plane_size_;
  int64_t channel_size_;
};

}  // namespace pteron::cpu
