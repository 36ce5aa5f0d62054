// Direct convolution with packed weights; a register holds neighbouring channels of one output
// position.
#include <algorithm>
#include <limits>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/kernels/transpose.h"

namespace pteron::cpu {
namespace {

// Bytes of image rows per thread: fits the L2 cache together with the weights of a block.
constexpr int64_t kStripBytes = 384 * 1024;
// Bytes of weights per block, which are read for every tile of outputs.
constexpr int64_t kBlockBytes = 640 * 1024;
// A single row of outputs is split among threads.
constexpr int64_t kMostWidthOfOneRow = 96;

// A 1x1 convolution treats the image as one row if its pixels have a uniform stride.
ConvolutionShape as_one_row(const ConvolutionShape& s, const PanelTensors& t) {
  const auto is_one = [&](const ImageStrides& strides) {
    return strides.y == s.in[2] * strides.x &&
           (s.batch == 1 || strides.outer == s.in[1] * strides.y);
  };
  const bool is_row = is_pointwise(s) && s.groups == 1 && is_one(t.in_strides) &&
                      is_one(t.out_strides) && (!t.residual || is_one(t.residual_strides)) &&
                      t.in_strides.channel == 1;
  if (!is_row) return s;
  ConvolutionShape row = s;
  row.batch = 1;
  row.in = row.out = {1, 1, s.batch * s.in_area()};
  return row;
}

class Convolution {
 public:
  Convolution(const ConvolutionShape& shape, const PanelTensors& t, const TileKernels& kernels)
      : s_(as_one_row(shape, t)),
        t_(t),
        kernels_(kernels),
        in_group_(s_.in_channels / s_.groups),
        out_group_(s_.out_channels / s_.groups),
        depth_(in_group_ * s_.kernel_area()),
        vectors_(divided_up(out_group_, kernels.lanes)),
        panels_(divided_up(out_group_, t.weight.width)),
        unit_(divided_up(t.weight.width, kernels.lanes)),
        units_(divided_up(vectors_, unit_)),
        padded_(is_padded()),
        width_(width_of_piece()),
        terms_(depth_) {
    // Rows of the tile are positions; their distance and what is between rows of the image:
    if (padded_) {
      pixel_ = s_.in_channels;
      line_ = ((width_ - 1) * s_.stride[2] + reach(2)) * pixel_;
    } else {
      pixel_ = t.in_strides.x;
      line_ = t.in_strides.y;
    }
    for_each_term(s_, true, [&](int64_t k, int64_t channel, int64_t ky, int64_t kx) {
      terms_.rows[k] = static_cast<int32_t>(ky * s_.dilation[1] * line_ +
                                            kx * s_.dilation[2] * pixel_ + channel);
      terms_.columns[k] = static_cast<int32_t>(k * t.weight.width);
    });
    terms_.find_runs(depth_ / s_.kernel[1]);
  }

  void run() {
    const int64_t per_image = divided_up(s_.out[2], width_) * s_.out[1];
    const int64_t rows = s_.batch * per_image, units = s_.groups * units_;
    const Parts parts = share(rows, units);
    const int64_t most_rows = rows_of_strip();
    parallel_for(parts.of_rows * parts.of_units, 1, [&](int64_t begin, int64_t end) {
      Scratch<float> strip(padded_ ? strip_rows(most_rows) * line_ + kMostTileLanes : 0);
      for (int64_t part = begin; part < end; ++part) {
        const int64_t row_part = part % parts.of_rows, unit_part = part / parts.of_rows;
        const int64_t first = part_begin(units, parts.of_units, unit_part);
        const int64_t last = part_begin(units, parts.of_units, unit_part + 1);
        const int64_t row_end = part_begin(rows, parts.of_rows, row_part + 1);
        for (int64_t i = part_begin(rows, parts.of_rows, row_part); i < row_end;) {
          const int64_t n = i / per_image, y = i % s_.out[1];
          const int64_t x = i % per_image / s_.out[1] * width_;
          const int64_t run = std::min(s_.out[1] - y, row_end - i);
          const int64_t count = divided_up(run, divided_up(run, most_rows));
          compute(piece_of(n, y, x, count, strip.data()), first, last);
          i += count;
        }
      }
    });
  }

 private:
  struct Parts {
    int64_t of_rows, of_units;
  };

  // Some rows of the output, and the pixels that the first of them depends on.
  struct Piece {
    const float* in;
    float* out;
    const float* residual;
    int64_t y, rows, width;
  };

  // Extent of the image along `d` that one output reads.
  int64_t reach(int d) const { return (s_.kernel[d] - 1) * s_.dilation[d] + 1; }

  // Whether image rows are copied: for padding, for channels last, or for small offsets.
  bool is_padded() const {
    const auto is_inside = [&](int d) {
      return s_.padding[d] == 0 && (s_.out[d] - 1) * s_.stride[d] + reach(d) <= s_.in[d];
    };
    return !is_inside(1) || !is_inside(2) || t_.in_strides.channel != 1 ||
           (reach(1) + 1) * t_.in_strides.y + reach(2) * t_.in_strides.x >= INT32_MAX;
  }

  int64_t width_of_piece() const {
    if (s_.out[1] > 1) return s_.out[2];
    const int64_t pixel_bytes = s_.in_channels * s_.stride[2] * int64_t{sizeof(float)};
    const int64_t most = std::clamp<int64_t>(kStripBytes / pixel_bytes, 16, kMostWidthOfOneRow);
    // Pieces per thread.
    const int64_t threads = max_threads();
    return divided_up(s_.out[2], threads * divided_up(s_.out[2], threads * most));
  }

  // How threads split the work: by rows, channels, or both. The cost model counts vector
  // operations: multiplications, weight loads from L3, image copies.
  Parts share(int64_t rows, int64_t units) const {
    const int64_t terms = rows * width_ * depth_ * units * unit_ * kernels_.lanes;
    const int64_t threads = std::clamp<int64_t>(terms / kTermsPerThread, 1, max_threads());
    Parts best{1, 1};
    double least = std::numeric_limits<double>::infinity();
    for (int64_t of_units = 1; of_units <= std::min(threads, units); ++of_units) {
      const Parts parts{std::min(threads / of_units, rows), of_units};
      const int64_t r = divided_up(rows, parts.of_rows), v = divided_up(units, of_units) * unit_;
      const int64_t lines = padded_ ? r * s_.stride[1] + reach(1) : 0;
      const auto cost =
          static_cast<double>(depth_ * v * (r * width_ + 2) + 2 * lines * line_ / kernels_.lanes);
      if (cost < (1 - kWorthSharingChannels) * least) {
        best = parts;
        least = cost;
      }
    }
    return best;
  }

  int64_t strip_rows(int64_t rows) const { return (rows - 1) * s_.stride[1] + reach(1); }

  // At least half of the rows are not read again for the next piece.
  int64_t rows_of_strip() const {
    const int64_t lines = kStripBytes / int64_t{sizeof(float)} / std::max<int64_t>(line_, 1);
    const int64_t fitting = (lines - strip_rows(1)) / s_.stride[1] + 1;
    const int64_t least = divided_up(strip_rows(1), s_.stride[1]);
    return std::clamp(fitting, std::min(least, s_.out[1]), s_.out[1]);
  }

  Piece piece_of(int64_t n, int64_t y, int64_t x, int64_t rows, float* strip) const {
    const float* in = t_.in + n * t_.in_strides.outer;
    if (padded_) {
      fill(in, y, rows, x, strip);
      in = strip;
    } else {
      in += y * s_.stride[1] * line_ + x * s_.stride[2] * pixel_;
    }
    float* out = t_.out + n * t_.out_strides.outer + (y * s_.out[2] + x) * t_.out_strides.x;
    const ImageStrides& more = t_.residual_strides;
    const float* residual =
        t_.residual ? t_.residual + n * more.outer + y * more.y + x * more.x : nullptr;
    return {in, out, residual, y, rows, std::min(width_, s_.out[2] - x)};
  }

  // Rows of the image with their padding, [rows, columns, channels].
  void fill(const float* in, int64_t y, int64_t rows, int64_t x, float* strip) const {
    const ImageStrides& strides = t_.in_strides;
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
      const float* from = in + source * strides.y + (left + begin) * strides.x;
      float* to = strip + begin * pixel_;
      std::fill(strip, to, 0.0f);
      if (strides.channel != 1) {
        transpose({from, pixel_, end - begin, strides.channel, strides.x}, pixel_, to);
        to += (end - begin) * pixel_;
      } else if (strides.x == pixel_) {
        to = std::copy(from, from + (end - begin) * pixel_, to);
      } else {
        for (int64_t i = begin; i < end; ++i, from += strides.x) {
          to = std::copy(from, from + pixel_, to);
        }
      }
      std::fill(to, strip + line_, 0.0f);
    }
    // Padding for the last vector of the last pixel.
    std::fill(strip, strip + kMostTileLanes, 0.0f);
  }

  // Units [first, last) over the channels of all groups.
  void compute(const Piece& piece, int64_t first, int64_t last) const {
    const int64_t unit_bytes = (1 + depth_) * unit_ * kernels_.lanes * int64_t{sizeof(float)};
    const int64_t most = std::clamp<int64_t>(kBlockBytes / unit_bytes, 1, kMostTileVectors / unit_);
    for (int64_t g = first / units_; g * units_ < last; ++g) {
      const int64_t begin = std::max<int64_t>(first - g * units_, 0);
      const int64_t count = std::min(last - g * units_, units_) - begin;
      const int64_t blocks = divided_up(count, most);
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t at = (begin + part_begin(count, blocks, i)) * unit_;
        const int64_t end = (begin + part_begin(count, blocks, i + 1)) * unit_;
        compute_block(piece, g, at, std::min(end, vectors_) - at);
      }
    }
  }

  void compute_block(const Piece& piece, int64_t g, int64_t begin, int64_t count) const {
    const int64_t lanes = kernels_.lanes, panel = (1 + depth_) * t_.weight.width;
    TileVector vectors[kMostTileVectors];
    for (int64_t v = 0; v < count; ++v) {
      const int64_t channel = (begin + v) * lanes;
      vectors[v].from = channel / t_.weight.width * panel + channel % t_.weight.width;
      vectors[v].to = g * out_group_ + channel;
      vectors[v].count = static_cast<int32_t>(std::min(lanes, out_group_ - channel));
      for (int i = 0; i < kMostTileLanes; ++i) vectors[v].lanes[i] = static_cast<uint8_t>(i);
    }
    ConvolutionTile tile;
    tile.row_stride = s_.stride[2] * pixel_;
    tile.row_bias = nullptr;
    tile.column_bias = t_.weight.data + g * panels_ * panel;
    tile.columns = tile.column_bias + t_.weight.width;
    tile.vectors = vectors;
    tile.out_row_stride = t_.out_strides.x;
    tile.out_lane_stride = 1;
    tile.residual_row_stride = t_.residual_strides.x;
    tile.least = t_.least;
    tile.most = t_.most;
    const float* in = piece.in + g * in_group_;
    const int64_t tiles = divided_up(piece.width, kernels_.most_rows[count]);
    // Top to bottom, so that the kernel's rows find pixels in cache.
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t x = part_begin(piece.width, tiles, i);
      const int64_t pixels = part_begin(piece.width, tiles, i + 1) - x;
      const TileKernel kernel = kernels_.get(pixels, count);
      for (int64_t y = 0; y < piece.rows; ++y) {
        // Kernel rows outside the image contribute nothing.
        const Inside ky(s_, 1, piece.y + y);
        const int64_t terms = depth_ / s_.kernel[1];  // of one row of the kernel
        terms_.set(ky.first * terms, (ky.last - ky.first) * terms, tile);
        tile.rows = in + y * s_.stride[1] * line_ + x * tile.row_stride;
        tile.out = piece.out + (y * s_.out[2] + x) * t_.out_strides.x;
        tile.residual = piece.residual
                            ? piece.residual + y * t_.residual_strides.y + x * t_.residual_strides.x
                            : nullptr;
        kernel(tile);
      }
    }
  }

  const ConvolutionShape s_;
  const PanelTensors& t_;
  const TileKernels& kernels_;
  const int64_t in_group_, out_group_;
  const int64_t depth_;    // terms per output
  const int64_t vectors_;  // of output channels of a group
  const int64_t panels_;   // of a group
  // Vectors that threads and blocks do not split: those of a panel, whose rows are a cache line.
  const int64_t unit_;
  const int64_t units_;  // of a group
  const bool padded_;
  const int64_t width_;  // of pieces
  int64_t pixel_, line_;
  Terms terms_;
};

}  // namespace

void convolve_panels(const ConvolutionShape& shape, const PanelTensors& tensors,
                     const TileKernels& kernels) {
  if (is_depthwise(shape)) return convolve_depthwise(shape, tensors, kernels);
  Convolution(shape, tensors, kernels).run();
}

}  // namespace pteron::cpu
