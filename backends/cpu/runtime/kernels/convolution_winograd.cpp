// Convolution by Winograd's F(2 x 2, 3 x 3), with packed weights; a register holds neighbouring
// channels.
//
// Outputs of a block of 2 x 2 depend on 4 x 4 pixels. Linear combinations of these, the factors, are
// multiplied with combinations of the weights: a product of matrices for each of the 16 positions.
// Sums of the products are the outputs. (Lavin and Gray, Fast Algorithms for Convolutional Neural
// Networks, 2015.)
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {
namespace {

constexpr int64_t kPositions = 16;
// Of which the product is a term of all four outputs, with sign +.
constexpr int64_t kPositionOfBias = 5;
// Bytes of factors per thread: fits the L2 cache together with products and weights.
constexpr int64_t kFactorBytes = 512 * 1024;

class Convolution {
 public:
  Convolution(const ConvolutionShape& s, const PanelTensors& t, const TileKernels& kernels)
      : s_(s),
        t_(t),
        kernels_(kernels),
        unit_(t.weight.width / kernels.lanes),
        units_(divided_up(s.out_channels, t.weight.width)),
        down_(divided_up(s.out[1], 2)),
        across_(divided_up(s.out[2], 2)),
        pitch_(divided_up(s.in_channels, kernels.lanes) * kernels.lanes),
        panel_((1 + kPositions * s.in_channels) * t.weight.width) {}

  void run() {
    const int64_t blocks = s_.batch * down_ * across_;
    const Parts parts = share(blocks);
    const int64_t fitting = kFactorBytes / (kPositions * pitch_ * int64_t{sizeof(float)});
    const int64_t most = std::clamp<int64_t>(fitting, 2 * kMostTileRows, 6 * kMostTileRows);
    parallel_for(parts.of_blocks * parts.of_units, 1, [&](int64_t begin, int64_t end) {
      const int64_t channels = kMostTileVectors * kernels_.lanes;
      Scratch<float> factors(kPositions * most * pitch_);
      Scratch<float> products(kPositions * most * channels);
      Scratch<float> zeros(pitch_);
      std::fill(zeros.data(), zeros.data() + pitch_, 0.0f);
      for (int64_t part = begin; part < end; ++part) {
        const int64_t of_blocks = part % parts.of_blocks, of_units = part / parts.of_blocks;
        const int64_t first = part_begin(units_, parts.of_units, of_units);
        const int64_t last = part_begin(units_, parts.of_units, of_units + 1);
        const int64_t from = part_begin(blocks, parts.of_blocks, of_blocks);
        const int64_t count = part_begin(blocks, parts.of_blocks, of_blocks + 1) - from;
        const int64_t runs = divided_up(count, most);
        for (int64_t i = 0; i < runs; ++i) {
          const int64_t at = from + part_begin(count, runs, i);
          const int64_t of_run = from + part_begin(count, runs, i + 1) - at;
          for (int64_t b = 0; b < of_run; ++b) {
            find_factors(at + b, zeros.data(), factors.data() + b * pitch_, of_run * pitch_);
          }
          const int64_t pieces = divided_up(last - first, kMostTileVectors / unit_);
          for (int64_t piece = 0; piece < pieces; ++piece) {
            const int64_t u = first + part_begin(last - first, pieces, piece);
            const int64_t panels = first + part_begin(last - first, pieces, piece + 1) - u;
            const int64_t width = panels * t_.weight.width;
            multiply(factors.data(), of_run, u, panels * unit_, products.data());
            for (int64_t b = 0; b < of_run; ++b) {
              const bool is_finite = add(at + b, products.data() + b * width, of_run * width,
                                         u * t_.weight.width, width);
              for (int64_t k = 0; !is_finite && k < panels; ++k) compute(at + b, u + k);
            }
          }
        }
      }
    });
  }

 private:
  struct Parts {
    int64_t of_blocks, of_units;
  };

  struct Place {
    int64_t n, y, x;  // of the first output of a block
  };

  Place place_of(int64_t block) const {
    return {block / (down_ * across_), block / across_ % down_ * 2, block % across_ * 2};
  }

  // How threads split the work: by blocks, channels, or both. The cost model counts vector
  // operations: multiplications, weight loads from L3, transforms.
  Parts share(int64_t blocks) const {
    const int64_t terms = blocks * kPositions * s_.in_channels * s_.out_channels;
    const int64_t threads = std::clamp<int64_t>(terms / kTermsPerThread, 1, max_threads());
    Parts best{1, 1};
    double least = std::numeric_limits<double>::infinity();
    for (int64_t of_units = 1; of_units <= std::min(threads, units_); ++of_units) {
      const Parts parts{std::min(threads / of_units, blocks), of_units};
      const int64_t b = divided_up(blocks, parts.of_blocks);
      const int64_t v = divided_up(units_, of_units) * unit_;
      const auto cost = static_cast<double>(kPositions) *
                        (s_.in_channels * v * (b + 4) + 4 * b * (pitch_ / kernels_.lanes + v));
      if (cost < least) {
        best = parts;
        least = cost;
      }
    }
    return best;
  }

  void find_factors(int64_t block, const float* zeros, float* to, int64_t stride) const {
    const Place at = place_of(block);
    const float* const image = t_.in + at.n * t_.in_strides.outer;
    const float* pixels[kPositions];
    for (int64_t i = 0; i < kPositions; ++i) {
      const int64_t y = at.y + i / 4 - s_.padding[1], x = at.x + i % 4 - s_.padding[2];
      const bool is_inside = y >= 0 && y < s_.in[1] && x >= 0 && x < s_.in[2];
      pixels[i] = is_inside ? image + y * t_.in_strides.y + x * t_.in_strides.x : zeros;
    }
    kernels_.winograd_in(pixels, s_.in_channels, to, stride);
  }

  // Products of `blocks` blocks with `count` vectors of channels, from panel `unit` on.
  void multiply(const float* factors, int64_t blocks, int64_t unit, int64_t count,
                float* products) const {
    const int64_t width = t_.weight.width, lanes = kernels_.lanes;
    const float* const panel = t_.weight.data + unit * panel_;
    TileVector vectors[kMostTileVectors];
    for (int64_t v = 0; v < count; ++v) {
      vectors[v].from = v / unit_ * panel_ + v % unit_ * lanes;
      vectors[v].to = v * lanes;
      vectors[v].count = static_cast<int32_t>(lanes);
    }
    constexpr int32_t kStart = 0;
    ConvolutionTile tile;
    tile.row_stride = pitch_;
    tile.depth = tile.run = s_.in_channels;
    tile.row_step = 1;
    tile.column_step = width;
    tile.row_offsets = tile.column_offsets = &kStart;
    tile.row_bias = nullptr;
    tile.vectors = vectors;
    tile.out_row_stride = count * lanes;
    tile.out_lane_stride = 1;
    const int64_t tiles = divided_up(blocks, kernels_.most_rows[count]);
    for (int64_t i = 0; i < kPositions; ++i) {
      tile.columns = panel + (1 + i * s_.in_channels) * width;
      tile.column_bias = i == kPositionOfBias ? panel : nullptr;
      for (int64_t k = 0; k < tiles; ++k) {
        const int64_t first = part_begin(blocks, tiles, k);
        tile.rows = factors + (i * blocks + first) * pitch_;
        tile.out = products + (i * blocks + first) * tile.out_row_stride;
        kernels_.get(part_begin(blocks, tiles, k + 1) - first, count)(tile);
      }
    }
  }

  // The outputs of a block, at most `channels` from `channel` on. False: not all are finite.
  bool add(int64_t block, const float* products, int64_t stride, int64_t channel,
           int64_t channels) const {
    const Place at = place_of(block);
    WinogradOutputs outputs;
    outputs.products = products;
    outputs.stride = stride;
    outputs.channels = std::min(channels, s_.out_channels - channel);
    outputs.least = t_.least;
    outputs.most = t_.most;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t y = at.y + i / 2, x = at.x + i % 2;
      const bool is_inside = y < s_.out[1] && x < s_.out[2];
      const auto place = [&](const ImageStrides& strides) {
        return at.n * strides.outer + y * strides.y + x * strides.x + channel;
      };
      outputs.out[i] = is_inside ? t_.out + place(t_.out_strides) : nullptr;
      outputs.residual[i] =
          is_inside && t_.residual ? t_.residual + place(t_.residual_strides) : nullptr;
    }
    return kernels_.winograd_out(outputs);
  }

  // The outputs of a block in one panel of channels by the definition: where an infinity is among the
  // pixels, differences of them are NaN, and outputs may be infinite.
  void compute(int64_t block, int64_t unit) const {
    const Place at = place_of(block);
    const int64_t width = t_.weight.width, channel = unit * width;
    const float* const panel = t_.weight.data + unit * panel_;
    std::array<float, kMostTileLanes> sums;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t y = at.y + i / 2, x = at.x + i % 2;
      if (y >= s_.out[1] || x >= s_.out[2]) continue;
      std::copy(panel, panel + width, sums.data());
      for (int64_t k = 0; k < 9; ++k) {
        const int64_t in_y = y + k / 3 - s_.padding[1], in_x = x + k % 3 - s_.padding[2];
        if (in_y < 0 || in_y >= s_.in[1] || in_x < 0 || in_x >= s_.in[2]) continue;
        const float* pixel =
            t_.in + at.n * t_.in_strides.outer + in_y * t_.in_strides.y + in_x * t_.in_strides.x;
        // A weight is that of a corner of the 4 x 4, or a difference of two, or of two differences.
        const auto row = [&](int64_t down, int64_t across) {
          return panel + (1 + (4 * down + across) * s_.in_channels) * width;
        };
        const int64_t down = k / 3 + k / 6, across = k % 3 + k % 3 / 2;
        const int64_t below = k / 3 == 1 ? 2 : -1, behind = k % 3 == 1 ? 2 : -1;
        for (int64_t c = 0; c < s_.in_channels; ++c) {
          for (int64_t l = 0; l < width; ++l) {
            const int64_t from = c * width + l;
            float weight = row(down, across)[from];
            if (below > 0) weight -= row(below, across)[from];
            if (behind > 0) weight -= row(down, behind)[from];
            if (below > 0 && behind > 0) weight += row(below, behind)[from];
            sums[l] += pixel[c] * weight;
          }
        }
      }
      const auto place = [&](const ImageStrides& strides) {
        return at.n * strides.outer + y * strides.y + x * strides.x + channel;
      };
      for (int64_t l = 0; l < std::min(width, s_.out_channels - channel); ++l) {
        const float sum = sums[l] + (t_.residual ? t_.residual[place(t_.residual_strides) + l] : 0);
        t_.out[place(t_.out_strides) + l] =
            std::isnan(sum) ? sum : std::min(std::max(sum, t_.least), t_.most);
      }
    }
  }

  const ConvolutionShape& s_;
  const PanelTensors& t_;
  const TileKernels& kernels_;
  const int64_t unit_, units_;   // vectors of a panel, panels
  const int64_t down_, across_;  // blocks of an image
  const int64_t pitch_;          // between the factors of two blocks
  const int64_t panel_;          // floats
};

}  // namespace

void convolve_winograd(const ConvolutionShape& shape, const PanelTensors& tensors,
                       const TileKernels& kernels) {
  Convolution(shape, tensors, kernels).run();
}

}  // namespace pteron::cpu
