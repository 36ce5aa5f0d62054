// Direct convolution with neighbouring channels of one output in a register.
#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {
namespace {

// Bytes of padded rows that one thread works on. At least half of them are not read for the next
// piece again.
constexpr int64_t kStripBytes = 384 * 1024;
// A single row of outputs is cut, to be shared.
constexpr int64_t kMostWidthOfOneRow = 96;

class Convolution {
 public:
  Convolution(const ConvolutionShape& s, const ConvolutionTensors& t, const TileKernels& kernels)
      : s_(s),
        t_(t),
        kernels_(kernels),
        lanewise_(s.in_channels == s.groups && s.out_channels == s.groups),
        groups_(lanewise_ ? 1 : s.groups),
        in_group_(s.in_channels / s.groups),
        out_group_(s.out_channels / groups_),
        depth_(in_group_ * s.kernel_area()),
        vectors_(divided_up(out_group_, kernels.lanes)),
        blocks_(divided_up(vectors_, kMostTileVectors)),
        padded_(s.padding[1] > 0 || s.padding[2] > 0 ||
                (lanewise_ && out_group_ % kernels.lanes != 0)),
        width_(s.out[1] == 1 ? std::min(s.out[2], kMostWidthOfOneRow) : s.out[2]),
        row_offsets_(depth_),
        weight_offsets_(depth_) {
    // Rows of the tile are positions; their distance and what is between rows of the image:
    if (padded_) {
      pixel_ = s.in_channels;
      line_ = ((width_ - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1) * pixel_;
    } else {
      pixel_ = t.in_strides.x;
      line_ = t.in_strides.y;
    }
    const ImageStrides& w = t.weight_strides;
    for_each_term(s, true, [&](int64_t k, int64_t channel, int64_t ky, int64_t kx) {
      row_offsets_[k] =
          static_cast<int32_t>(ky * s.dilation[1] * line_ + kx * s.dilation[2] * pixel_ + channel);
      weight_offsets_[k] = static_cast<int32_t>(channel * w.channel + ky * w.y + kx * w.x);
    });
  }

  void run() {
    const int64_t lanes = kernels_.lanes, all = groups_ * vectors_;
    Scratch<float> weights(all * lanes * depth_), bias(all * lanes);
    parallel_for(all, 32768 / (lanes * depth_) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) arrange(i, weights.data(), bias.data());
    });
    const int64_t most = divided_up(vectors_, blocks_);  // vectors of a block
    Scratch<int32_t> column_offsets(2 * depth_);         // for as many, and for one less
    for (int64_t k = 0; k < depth_; ++k) {
      column_offsets[k] = static_cast<int32_t>(k * most * lanes);
      column_offsets[depth_ + k] = static_cast<int32_t>(k * (most - 1) * lanes);
    }

    const Arranged arranged{weights.data(), bias.data(), column_offsets.data()};
    const int64_t per_image = divided_up(s_.out[2], width_) * s_.out[1];
    const int64_t most_rows = rows_of_strip();
    parallel_for(
        s_.batch * per_image, grain_of(width_ * depth_ * s_.out_channels),
        [&](int64_t begin, int64_t end) {
          Scratch<float> strip(padded_ ? strip_rows(most_rows) * line_ + kMostTileLanes : 0);
          for (int64_t i = begin; i < end;) {
            const int64_t n = i / per_image, y = i % s_.out[1];
            const int64_t x = i % per_image / s_.out[1] * width_;
            const int64_t run = std::min(s_.out[1] - y, end - i);
            const int64_t rows = divided_up(run, divided_up(run, most_rows));
            const float* in = t_.in + n * t_.in_strides.outer;
            if (padded_) {
              fill(in, y, rows, x, strip.data());
              in = strip.data();
            } else {
              in += y * s_.stride[1] * line_ + x * s_.stride[2] * pixel_;
            }
            float* out = t_.out + n * t_.out_strides.outer + (y * s_.out[2] + x) * t_.out_strides.x;
            const Piece piece{in, out, y, rows, std::min(width_, s_.out[2] - x)};
            for (int64_t block = 0; block < groups_ * blocks_; ++block) {
              compute(piece, block / blocks_, block % blocks_, arranged);
            }
            i += rows;
          }
        });
  }

 private:
  struct Arranged {
    const float* weights;
    const float* bias;
    const int32_t* column_offsets;  // [2, depth]
  };

  // Some rows of the output, at their begin, and the pixels that the first of them depends on.
  struct Piece {
    const float* in;
    float* out;
    int64_t y, rows, width;
  };

  int64_t strip_rows(int64_t rows) const {
    return (rows - 1) * s_.stride[1] + (s_.kernel[1] - 1) * s_.dilation[1] + 1;
  }

  int64_t rows_of_strip() const {
    if (!padded_) return s_.out[1];
    const int64_t lines = kStripBytes / int64_t{sizeof(float)} / line_;
    const int64_t fitting = (lines - strip_rows(1)) / s_.stride[1] + 1;
    const int64_t least = divided_up(strip_rows(1), s_.stride[1]);
    return std::clamp(fitting, std::min(least, s_.out[1]), s_.out[1]);
  }

  // Weights of one vector of channels: [depth, lanes] inside of its block's [depth, lanes of the
  // block]. Channels that there are not get zeros.
  void arrange(int64_t i, float* weights, float* bias) const {
    const int64_t lanes = kernels_.lanes, g = i / vectors_, v = i % vectors_;
    const int64_t block = block_of(v), begin = part_begin(vectors_, blocks_, block);
    const int64_t width = (part_begin(vectors_, blocks_, block + 1) - begin) * lanes;
    const int64_t first = g * out_group_ + v * lanes;
    const int64_t count = std::min(lanes, out_group_ - v * lanes);
    float* to = weights + (g * vectors_ + begin) * lanes * depth_ + (v - begin) * lanes;
    const float* from = t_.weight + first * t_.weight_strides.outer;
    for (int64_t k = 0; k < depth_; ++k, to += width) {
      const float* column = from + weight_offsets_[k];
      for (int64_t l = 0; l < count; ++l) to[l] = column[l * t_.weight_strides.outer];
      std::fill(to + count, to + lanes, 0.0f);
    }
    for (int64_t l = 0; l < lanes; ++l) {
      bias[i * lanes + l] = t_.bias && l < count ? t_.bias[first + l] : 0.0f;
    }
  }

  int64_t block_of(int64_t vector) const {
    int64_t block = vector * blocks_ / vectors_;
    while (part_begin(vectors_, blocks_, block + 1) <= vector) ++block;
    return block;
  }

  // Rows of the image with their padding, [rows, columns, channels].
  void fill(const float* in, int64_t y, int64_t rows, int64_t x, float* strip) const {
    const int64_t columns = line_ / pixel_;
    const int64_t left = x * s_.stride[2] - s_.padding[2];
    const int64_t begin = std::clamp<int64_t>(-left, 0, columns);
    const int64_t end = std::clamp<int64_t>(s_.in[2] - left, begin, columns);
    for (int64_t j = 0; j < strip_rows(rows); ++j, strip += line_) {
      const int64_t source = y * s_.stride[1] + j - s_.padding[1];
      if (source < 0 || source >= s_.in[1]) {
        std::fill(strip, strip + line_, 0.0f);
        continue;
      }
      const float* from = in + source * t_.in_strides.y + (left + begin) * t_.in_strides.x;
      float* to = strip + begin * pixel_;
      std::fill(strip, to, 0.0f);
      if (t_.in_strides.x == pixel_) {
        to = std::copy(from, from + (end - begin) * pixel_, to);
      } else {
        for (int64_t i = begin; i < end; ++i, from += t_.in_strides.x) {
          to = std::copy(from, from + pixel_, to);
        }
      }
      std::fill(to, strip + line_, 0.0f);
    }
    // What the last vector of the last pixel reaches into.
    std::fill(strip, strip + kMostTileLanes, 0.0f);
  }

  void compute(const Piece& piece, int64_t g, int64_t block, const Arranged& arranged) const {
    const int64_t lanes = kernels_.lanes;
    const int64_t begin = part_begin(vectors_, blocks_, block);
    const int64_t count = part_begin(vectors_, blocks_, block + 1) - begin;
    TileVector vectors[kMostTileVectors];
    for (int64_t v = 0; v < count; ++v) {
      vectors[v].from = v * lanes;
      vectors[v].to = g * out_group_ + (begin + v) * lanes;
      vectors[v].count = static_cast<int32_t>(std::min(lanes, out_group_ - (begin + v) * lanes));
      for (int i = 0; i < kMostTileLanes; ++i) vectors[v].lanes[i] = static_cast<uint8_t>(i);
    }
    ConvolutionTile tile;
    tile.row_stride = s_.stride[2] * pixel_;
    tile.columns = arranged.weights + (g * vectors_ + begin) * lanes * depth_;
    const int32_t* column_offsets =
        arranged.column_offsets + (count == divided_up(vectors_, blocks_) ? 0 : depth_);
    tile.row_bias = nullptr;
    tile.column_bias = arranged.bias + (g * vectors_ + begin) * lanes;
    tile.vectors = vectors;
    tile.out_row_stride = t_.out_strides.x;
    tile.out_lane_stride = 1;
    const int64_t first_channel = lanewise_ ? begin * lanes : g * in_group_;
    const int64_t tiles = divided_up(piece.width, kernels_.most_rows[count]);
    // Down the image, so that the rows of the kernel meet pixels that are in the cache already.
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t x = part_begin(piece.width, tiles, i);
      const int64_t pixels = part_begin(piece.width, tiles, i + 1) - x;
      const TileKernel kernel =
          lanewise_ ? kernels_.get_lanewise(pixels, count) : kernels_.get(pixels, count);
      for (int64_t y = 0; y < piece.rows; ++y) {
        // Rows of the kernel that lie outside the image add nothing.
        const int64_t top = s_.padding[1] - (piece.y + y) * s_.stride[1], bottom = s_.in[1] + top;
        const int64_t ky = std::clamp<int64_t>(divided_up(top, s_.dilation[1]), 0, s_.kernel[1]);
        const int64_t ky_end =
            std::clamp<int64_t>(divided_up(bottom, s_.dilation[1]), ky, s_.kernel[1]);
        const int64_t terms = depth_ / s_.kernel[1];  // of one row of the kernel
        tile.row_offsets = row_offsets_.data() + ky * terms;
        tile.column_offsets = column_offsets + ky * terms;
        tile.depth = (ky_end - ky) * terms;
        tile.rows = piece.in + first_channel + y * s_.stride[1] * line_ + x * tile.row_stride;
        tile.out = piece.out + (y * s_.out[2] + x) * t_.out_strides.x;
        kernel(tile);
      }
    }
  }

  const ConvolutionShape& s_;
  const ConvolutionTensors& t_;
  const TileKernels& kernels_;
  const bool lanewise_;  // each channel for itself: treated as one group of all
  const int64_t groups_;
  const int64_t in_group_, out_group_;
  const int64_t depth_;    // terms of an output
  const int64_t vectors_;  // of output channels of a group
  const int64_t blocks_;   // of vectors of a group
  const bool padded_;
  const int64_t width_;  // of strips
  int64_t pixel_, line_;
  Scratch<int32_t> row_offsets_, weight_offsets_;
};

}  // namespace

void convolve_by_channels(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                          const TileKernels& kernels) {
  Convolution(shape, tensors, kernels).run();
}

}  // namespace pteron::cpu
