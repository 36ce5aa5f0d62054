// Direct convolution; a register holds neighbouring output positions of one channel.
//
// In 3-d each plane of the output is computed as an image that has the channels of all planes of
// the input that it depends on.
#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/plane_strip.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {
namespace {

// Bytes of a strip per thread: fits the L2 cache together with the weights.
constexpr int64_t kStripBytes = 384 * 1024;
// Bytes of shared strips of several images.
constexpr int64_t kSharedBytes = 4 * 1024 * 1024;
// Minimum outputs per strip, to amortize reading the weights.
constexpr int64_t kLeastPositions = 96;
// Minimum outputs of a channel for which weights are copied, so that terms that follow each other are
// of neighbouring channels, which are equally far apart.
constexpr int64_t kLeastPositionsOfCopy = 1024;
// Maximum strip width; longer rows are split. A single row is split finer, for more threads.
constexpr int64_t kMostWidth = 1024;
constexpr int64_t kMostWidthOfOneRow = 240;

int64_t strip_width(const ConvolutionShape& s) {
  const int64_t most = s.out[1] == 1 ? kMostWidthOfOneRow : kMostWidth;
  if (s.out[2] <= most) return s.out[2];
  const int64_t blocks = divided_up(s.out[2], most);
  return divided_up(divided_up(s.out[2], blocks), kMostTileLanes) * kMostTileLanes;
}

int64_t most_rows(const ConvolutionShape& s, int64_t width) {
  const PlaneStrip one(s, width, 1), two(s, width, 2);
  const int64_t channels = s.in_channels / s.groups * s.kernel[0];
  const int64_t floats = kStripBytes / int64_t{sizeof(float)};
  const int64_t row = std::max<int64_t>(two.size(channels) - one.size(channels), 1);
  const int64_t fitting = 1 + (floats - one.size(channels)) / row;
  return std::clamp(fitting, std::min(divided_up(kLeastPositions, width), s.out[1]), s.out[1]);
}

class Convolution {
 public:
  Convolution(const ConvolutionShape& s, const ConvolutionTensors& t, const TileKernels& kernels)
      : s_(s),
        t_(t),
        kernels_(kernels),
        in_group_(s.in_channels / s.groups),
        out_group_(s.out_channels / s.groups),
        depth_(in_group_ * s.kernel_area()),
        blocks_(divided_up(out_group_, kernels.most_rows[kMostTileVectors])),
        width_(strip_width(s)),
        most_rows_(most_rows(s, width_)),
        inside_(t.weight_strides.channel < t.weight_strides.x),
        terms_(depth_),
        copied_(is_copied() ? s.out_channels * depth_ : 0) {
    const int64_t terms = terms_of_plane();
    if (is_copied()) copy_weights();
    const ImageStrides& w = t_.weight_strides;
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
      for_each_term(s, inside_, [&](int64_t k, int64_t channel, int64_t ky, int64_t kx) {
        terms_.rows[kz * terms + k] =
            static_cast<int32_t>(channel * w.channel + kz * w.z + ky * w.y + kx * w.x);
      });
    }
  }

  void run() {
    const PlaneStrip image(s_, s_.out[2], s_.out[1]);
    const int64_t image_bytes = image.size(in_group_ * s_.in[0]) * int64_t{sizeof(float)};
    const int64_t weight_bytes = out_group_ * depth_ * int64_t{sizeof(float)};
    const int threads = max_threads();
    const int64_t rows =
        s_.batch * s_.groups * s_.out[0] * s_.out[1] * divided_up(s_.out[2], width_);
    const bool few_rows = rows < threads && blocks_ > 1;
    if (threads > 1 && image_bytes <= kSharedBytes && width_ == s_.out[2] &&
        (few_rows || (weight_bytes > image_bytes && blocks_ * s_.groups >= 2 * threads))) {
      share_channels(image);
    } else {
      share_rows();
    }
  }

 private:
  // A thread computes all channels of some rows, from its own strips.
  void share_rows() {
    const PlaneStrip strip(s_, width_, most_rows_);
    set_columns(strip, /*dilation=*/1);
    const int64_t x_blocks = divided_up(s_.out[2], width_);
    const int64_t per_plane = x_blocks * s_.out[1];
    parallel_for(s_.batch * s_.groups * s_.out[0] * per_plane,
                 grain_of(width_ * depth_ * out_group_), [&](int64_t begin, int64_t end) {
                   Scratch<float> planes(strip.size(in_group_ * s_.kernel[0]));
                   Vectors vectors(most_vectors(most_rows_));
                   for (int64_t i = begin; i < end;) {
                     const int64_t image = i / per_plane / s_.out[0], y = i % s_.out[1];
                     const int64_t z = i / per_plane % s_.out[0];
                     const int64_t x = i % per_plane / s_.out[1] * width_;
                     const int64_t run = std::min(s_.out[1] - y, end - i);
                     const int64_t rows = divided_up(run, divided_up(run, most_rows_));
                     const Inside kz(s_, 0, z);
                     for (int64_t k = kz.first; k < kz.last; ++k) {
                       strip.fill(
                           plane_in(image, plane_of(z, k)), t_.in_strides, in_group_, y, rows, x,
                           /*end=*/k + 1 == kz.last,
                           planes.data() + (k - kz.first) * in_group_ * strip.channel_size());
                     }
                     vectors.set(*this, strip.pitch(), rows, std::min(width_, s_.out[2] - x));
                     for (int64_t block = 0; block < blocks_; ++block) {
                       compute(planes.data(), vectors, image, block, z, y, x);
                     }
                     i += rows;
                   }
                 });
  }

  // All threads make strips of whole images; then each computes all rows of some channels, so that
  // each weight is read by one thread.
  void share_channels(const PlaneStrip& strip) {
    set_columns(strip, s_.dilation[0]);
    const int64_t channels = in_group_ * s_.in[0];
    const int64_t images = s_.batch * s_.groups, size = strip.size(channels);
    const int64_t fitting =
        std::max<int64_t>(1, kSharedBytes / int64_t{sizeof(float)} / size / s_.groups);
    const int64_t together = std::min(s_.batch, fitting) * s_.groups;
    Scratch<float> planes(together * size);
    for (int64_t first = 0; first < images; first += together) {
      const int64_t count = std::min(together, images - first);
      parallel_for(count * channels, 16384 / strip.channel_size() + 1,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end;) {
                       const int64_t image = i / channels, plane = i / in_group_ % s_.in[0];
                       const int64_t channel = i % in_group_;
                       const int64_t run = std::min(in_group_ - channel, end - i);
                       i += run;
                       strip.fill(plane_in(first + image, plane) + channel * t_.in_strides.channel,
                                  t_.in_strides, run, 0, s_.out[1], 0, /*end=*/i % channels == 0,
                                  planes.data() + image * size +
                                      (plane * in_group_ + channel) * strip.channel_size());
                     }
                   });
      Vectors vectors(most_vectors(s_.out[1]));
      vectors.set(*this, strip.pitch(), s_.out[1], s_.out[2]);
      // Images are the innermost loop: the weights of a block stay in cache.
      const int64_t per_block = count / s_.groups * s_.out[0];
      parallel_for(count * s_.out[0] * blocks_,
                   grain_of(s_.out[1] * s_.out[2] * depth_ * divided_up(out_group_, blocks_)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t n = i % per_block / s_.out[0], z = i % s_.out[0];
                       const int64_t block = i / per_block % blocks_;
                       const int64_t image = n * s_.groups + i / per_block / blocks_;
                       const int64_t plane = plane_of(z, Inside(s_, 0, z).first);
                       compute(
                           planes.data() + image * size + plane * in_group_ * strip.channel_size(),
                           vectors, first + image, block, z, 0, 0);
                     }
                   });
    }
  }

  // The registers that cover outputs [0, rows) x [0, width) of a strip.
  class Vectors {
   public:
    explicit Vectors(int64_t most) : vectors_(most) {}

    void set(const Convolution& c, int64_t pitch, int64_t rows, int64_t width) {
      if (rows == rows_ && width == width_) return;
      rows_ = rows;
      width_ = width;
      count_ = 0;
      const int64_t lanes = c.kernels_.lanes;
      if (width == c.s_.out[2] && pitch < divided_up(width, lanes) * lanes) {
        through_rows(c, pitch);
      } else {
        by_rows(c, pitch);
      }
    }
    int64_t count() const { return count_; }
    const TileVector* at(int64_t i) const { return vectors_.data() + i; }

   private:
    // Row by row; the last register of each row is partially filled.
    void by_rows(const Convolution& c, int64_t pitch) {
      for (int64_t y = 0; y < rows_; ++y) {
        for (int64_t x = 0; x < width_; x += c.kernels_.lanes) {
          TileVector& vector = vectors_[count_++];
          vector.from = y * pitch + x;
          vector.to = (y * c.s_.out[2] + x) * c.t_.out_strides.x;
          vector.count = static_cast<int32_t>(std::min<int64_t>(c.kernels_.lanes, width_ - x));
          for (int i = 0; i < kMostTileLanes; ++i) vector.lanes[i] = static_cast<uint8_t>(i);
        }
      }
    }
    // Across the ends of rows: wastes less if rows are short.
    void through_rows(const Convolution& c, int64_t pitch) {
      int64_t y = 0, x = 0;
      for (int64_t from = 0; y < rows_; from += c.kernels_.lanes) {
        TileVector& vector = vectors_[count_];
        vector.from = from;
        vector.to = (y * width_ + std::min(x, width_)) * c.t_.out_strides.x;
        vector.count = 0;
        for (int lane = 0; lane < c.kernels_.lanes && y < rows_; ++lane) {
          if (x < width_) vector.lanes[vector.count++] = static_cast<uint8_t>(lane);
          if (++x == pitch) {
            x = 0;
            ++y;
          }
        }
        count_ += vector.count > 0;
      }
    }

    Scratch<TileVector> vectors_;
    int64_t count_ = 0, rows_ = 0, width_ = 0;
  };

  int64_t most_vectors(int64_t rows) const {
    return rows * (divided_up(width_, kernels_.lanes) + 1) + 1;
  }

  // One block of channels of one image's group, at all positions of a strip, from the first of the
  // planes that plane `z` of the output depends on.
  void compute(const float* planes, const Vectors& vectors, int64_t image, int64_t block, int64_t z,
               int64_t y, int64_t x) const {
    const int64_t n = image / s_.groups, g = image % s_.groups;
    const int64_t first = g * out_group_ + part_begin(out_group_, blocks_, block);
    const int64_t rows = g * out_group_ + part_begin(out_group_, blocks_, block + 1) - first;
    const ImageStrides& to = t_.out_strides;
    ConvolutionTile tile;
    const Inside kz(s_, 0, z);
    tile.rows = t_.weight + first * t_.weight_strides.outer + kz.first * t_.weight_strides.z;
    tile.row_stride = t_.weight_strides.outer;
    tile.columns = planes;
    terms_.set(0, (kz.last - kz.first) * terms_of_plane(), tile);
    tile.row_bias = t_.bias ? t_.bias + first : nullptr;
    tile.column_bias = nullptr;
    tile.out = t_.out + n * to.outer + first * to.channel + z * to.z + (y * s_.out[2] + x) * to.x;
    tile.out_row_stride = to.channel;
    tile.out_lane_stride = to.x;
    const int64_t tiles = divided_up(vectors.count(), kMostTileVectors);
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t begin = part_begin(vectors.count(), tiles, i);
      tile.vectors = vectors.at(begin);
      kernels_.get(rows, part_begin(vectors.count(), tiles, i + 1) - begin)(tile);
    }
  }

  bool is_copied() const {
    return !inside_ && in_group_ > 1 && s_.kernel_area() > 1 &&
           s_.out[0] * s_.out[1] * s_.out[2] >= kLeastPositionsOfCopy;
  }

  // With input channels innermost.
  void copy_weights() {
    const ImageStrides& from = t_.weight_strides;
    const int64_t x = in_group_, y = s_.kernel[2] * x, z = s_.kernel[1] * y;
    parallel_for(s_.out_channels, grain_of(depth_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const weight = t_.weight + i * from.outer;
        float* to = copied_.data() + i * depth_;
        for (int64_t kz = 0; kz < s_.kernel[0]; ++kz) {
          for_each_term(s_, true, [&](int64_t, int64_t channel, int64_t ky, int64_t kx) {
            *to++ = weight[channel * from.channel + kz * from.z + ky * from.y + kx * from.x];
          });
        }
      }
    });
    t_.weight = copied_.data();
    t_.weight_strides = {depth_, 1, y, x, z};
    inside_ = true;
  }

  int64_t terms_of_plane() const { return in_group_ * s_.kernel[1] * s_.kernel[2]; }

  // `dilation` of the planes in the strip.
  void set_columns(const PlaneStrip& strip, int64_t dilation) {
    const int64_t terms = terms_of_plane();
    for (int64_t kz = 0; kz < s_.kernel[0]; ++kz) {
      for_each_term(s_, inside_, [&](int64_t k, int64_t channel, int64_t ky, int64_t kx) {
        terms_.columns[kz * terms + k] = static_cast<int32_t>(
            (kz * dilation * in_group_ + channel) * strip.channel_size() + strip.offset(ky, kx));
      });
    }
    terms_.find_runs(terms);
  }

  int64_t plane_of(int64_t z, int64_t kz) const {
    return z * s_.stride[0] - s_.padding[0] + kz * s_.dilation[0];
  }

  const float* plane_in(int64_t image, int64_t z) const {
    return t_.in + image / s_.groups * t_.in_strides.outer +
           image % s_.groups * in_group_ * t_.in_strides.channel + z * t_.in_strides.z;
  }

  const ConvolutionShape& s_;
  ConvolutionTensors t_;
  const TileKernels& kernels_;
  const int64_t in_group_, out_group_;
  const int64_t depth_;      // terms per output
  const int64_t blocks_;     // blocks of output channels per group
  const int64_t width_;      // of strips
  const int64_t most_rows_;  // of strips
  bool inside_;              // input channels are innermost in the weights
  Terms terms_;
  Scratch<float> copied_;  // weights
};

}  // namespace

void convolve_by_positions(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                           const TileKernels& kernels) {
  Convolution(shape, tensors, kernels).run();
}

}  // namespace pteron::cpu
