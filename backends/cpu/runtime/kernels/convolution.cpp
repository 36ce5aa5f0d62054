#include "pteron/backends/cpu/runtime/kernels/convolution.h"

#include <algorithm>

#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/cpu/runtime/kernels/gemm.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {
namespace {

// Bytes of im2col input per GEMM: fits the L2 cache.
constexpr int64_t kBlockBytes = 384 * 1024;
// Minimum columns: the library packs the weights in every GEMM, which must be amortized.
constexpr int64_t kLeastWidth = 256;
// Maximum bytes of a whole im2col image that threads share.
constexpr int64_t kSharedBytes = 32 * 1024 * 1024;

// Writes rows (channel, kernel position) and columns (output positions begin..end) of the im2col
// input: columns[r * (end - begin) + c].
template <typename T>
void unfold(const ConvolutionShape& s, const T* in, int64_t channels, int64_t begin, int64_t end,
            T* columns) {
  const int64_t width = end - begin;
  const int64_t first_x = begin % s.out[2];
  const int64_t first_y = begin / s.out[2] % s.out[1];
  const int64_t first_z = begin / s.out[2] / s.out[1];
  for (int64_t channel = 0; channel < channels; ++channel, in += s.in_area()) {
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx, columns += width) {
          const int64_t offset_x = kx * s.dilation[2] - s.padding[2];
          int64_t x = first_x, y = first_y, z = first_z;
          // One output row at a time: left padding, interior, right padding.
          for (int64_t c = 0; c < width;) {
            const int64_t count = std::min(width - c, s.out[2] - x);
            T* to = columns + c;
            const int64_t in_z = z * s.stride[0] + kz * s.dilation[0] - s.padding[0];
            const int64_t in_y = y * s.stride[1] + ky * s.dilation[1] - s.padding[1];
            if (in_z < 0 || in_z >= s.in[0] || in_y < 0 || in_y >= s.in[1]) {
              std::fill(to, to + count, T(0));
            } else {
              const T* row = in + (in_z * s.in[1] + in_y) * s.in[2];
              // x * stride + offset_x in [0, in)
              const int64_t stride = s.stride[2];
              int64_t low = offset_x >= 0 ? 0 : (-offset_x + stride - 1) / stride;
              int64_t high =
                  s.in[2] - offset_x <= 0 ? 0 : (s.in[2] - offset_x + stride - 1) / stride;
              low = std::clamp<int64_t>(low - x, 0, count);
              high = std::clamp<int64_t>(high - x, low, count);
              std::fill(to, to + low, T(0));
              const T* from = row + (x + low) * stride + offset_x;
              if (stride == 1) {
                std::copy(from, from + (high - low), to + low);
              } else {
                for (int64_t i = low; i < high; ++i) to[i] = row[(x + i) * stride + offset_x];
              }
              std::fill(to + high, to + count, T(0));
            }
            c += count;
            x = 0;
            if (++y == s.out[1]) {
              y = 0;
              ++z;
            }
          }
        }
      }
    }
  }
}

// Adds rows (channel, kernel position) and columns (input positions) to the output they reach.
template <typename T, typename Sum>
void fold(const ConvolutionShape& s, const T* columns, int64_t channels, Sum* out) {
  for (int64_t channel = 0; channel < channels; ++channel, out += s.out_area()) {
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
          for (int64_t z = 0; z < s.in[0]; ++z) {
            const int64_t out_z = z * s.stride[0] + kz * s.dilation[0] - s.padding[0];
            for (int64_t y = 0; y < s.in[1]; ++y, columns += s.in[2]) {
              const int64_t out_y = y * s.stride[1] + ky * s.dilation[1] - s.padding[1];
              if (out_z < 0 || out_z >= s.out[0] || out_y < 0 || out_y >= s.out[1]) continue;
              Sum* row = out + (out_z * s.out[1] + out_y) * s.out[2];
              for (int64_t x = 0; x < s.in[2]; ++x) {
                const int64_t out_x = x * s.stride[2] + kx * s.dilation[2] - s.padding[2];
                if (out_x >= 0 && out_x < s.out[2]) row[out_x] += static_cast<Sum>(columns[x]);
              }
            }
          }
        }
      }
    }
  }
}

// Depthwise: a plain sum over the kernel, row by row.
template <typename T>
void convolve_channel(const ConvolutionShape& s, const T* in, const T* weight, T bias, T* out) {
  using Sum = slim::accumulate_t<T>;
  Scratch<Sum> row(s.out[2]);
  for (int64_t z = 0; z < s.out[0]; ++z) {
    for (int64_t y = 0; y < s.out[1]; ++y, out += s.out[2]) {
      std::fill(row.data(), row.data() + s.out[2], static_cast<Sum>(bias));
      for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
        const int64_t in_z = z * s.stride[0] + kz * s.dilation[0] - s.padding[0];
        if (in_z < 0 || in_z >= s.in[0]) continue;
        for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
          const int64_t in_y = y * s.stride[1] + ky * s.dilation[1] - s.padding[1];
          if (in_y < 0 || in_y >= s.in[1]) continue;
          const T* from = in + (in_z * s.in[1] + in_y) * s.in[2];
          const T* taps = weight + (kz * s.kernel[1] + ky) * s.kernel[2];
          for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
            const auto tap = static_cast<Sum>(taps[kx]);
            const int64_t offset = kx * s.dilation[2] - s.padding[2], stride = s.stride[2];
            const int64_t low = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
            const int64_t high = std::min(
                s.out[2], s.in[2] - offset <= 0 ? 0 : (s.in[2] - offset + stride - 1) / stride);
            if (stride == 1) {
              const T* shifted = from + offset;
              for (int64_t x = low; x < high; ++x) row[x] += tap * static_cast<Sum>(shifted[x]);
            } else {
              for (int64_t x = low; x < high; ++x) {
                row[x] += tap * static_cast<Sum>(from[x * stride + offset]);
              }
            }
          }
        }
      }
      for (int64_t x = 0; x < s.out[2]; ++x) out[x] = static_cast<T>(row[x]);
    }
  }
}

template <typename T>
void add_bias(T* out, int64_t channels, int64_t row_stride, int64_t width, const T* bias) {
  if (!bias) return;
  for (int64_t c = 0; c < channels; ++c) {
    T* row = out + c * row_stride;
    for (int64_t i = 0; i < width; ++i) row[i] = T(row[i] + bias[c]);
  }
}

}  // namespace

bool is_pointwise(const ConvolutionShape& s) {
  for (int d = 0; d < 3; ++d) {
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0) return false;
  }
  return true;
}

template <typename T>
void convolve(const ConvolutionShape& s, const T* in, const T* weight, const T* bias, T* out) {
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const int64_t in_area = s.in_area(), out_area = s.out_area();
  const int64_t depth = in_group * s.kernel_area();  // K
  if (s.batch == 0 || out_area == 0 || s.out_channels == 0) return;

  if (in_group == 1) {
    const int64_t cost = out_area * s.kernel_area();
    parallel_for(s.batch * s.out_channels, 65536 / std::max<int64_t>(cost, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t n = i / s.out_channels, o = i % s.out_channels;
                     convolve_channel(s, in + (n * s.in_channels + o / out_group) * in_area,
                                      weight + o * s.kernel_area(), bias ? bias[o] : T(0),
                                      out + i * out_area);
                   }
                 });
    return;
  }

  // One image on several threads: all do im2col, then one multithreaded GEMM.
  const bool pointwise = is_pointwise(s);
  const int64_t images = s.batch * s.groups;
  const int threads = max_threads();
  if (images < threads && (pointwise || depth * out_area * int64_t{sizeof(T)} <= kSharedBytes)) {
    Scratch<T> shared(pointwise ? 0 : depth * out_area);
    for (int64_t image = 0; image < images; ++image) {
      const int64_t n = image / s.groups, g = image % s.groups;
      const T* source = in + (n * s.in_channels + g * in_group) * in_area;
      Matrix<const T> right{source, depth, out_area, in_area, 1};
      if (!pointwise) {
        const int64_t rows = s.kernel_area() * out_area;
        parallel_for(in_group, 16384 / std::max<int64_t>(rows, 1) + 1,
                     [&](int64_t begin, int64_t end) {
                       unfold(s, source + begin * in_area, end - begin, 0, out_area,
                              shared.data() + begin * rows);
                     });
        right = {shared.data(), depth, out_area, out_area, 1};
      }
      T* target = out + (n * s.out_channels + g * out_group) * out_area;
      gemm<T>(1.0, {weight + g * out_group * depth, out_group, depth, depth, 1}, right, 0.0,
              {target, out_group, out_area, out_area, 1});
      add_bias(target, out_group, out_area, out_area, bias ? bias + g * out_group : nullptr);
    }
    return;
  }

  // Tasks are (image, group, range of output positions).
  const int64_t fitting =
      kBlockBytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(depth, 1);
  int64_t width =
      pointwise ? out_area : std::min(std::max(fitting / 16 * 16, kLeastWidth), out_area);
  if (images < threads && out_area * depth * out_group > 65536) {
    const int64_t per_thread = (out_area + threads - 1) / threads;
    width = std::min(width, std::max<int64_t>(16, (per_thread + 15) / 16 * 16));
  }
  const int64_t blocks = (out_area + width - 1) / width;
  const int64_t cost = width * depth * out_group;
  parallel_for(
      images * blocks, 65536 / std::max<int64_t>(cost, 1) + 1, [&](int64_t begin, int64_t end) {
        Scratch<T> columns(pointwise ? 0 : depth * width);
        for (int64_t task = begin; task < end; ++task) {
          const int64_t image = task / blocks, n = image / s.groups, g = image % s.groups;
          const int64_t first = task % blocks * width, last = std::min(out_area, first + width);
          const T* source = in + (n * s.in_channels + g * in_group) * in_area;
          Matrix<const T> right{source + first, depth, last - first, in_area, 1};
          if (!pointwise) {
            unfold(s, source, in_group, first, last, columns.data());
            right = {columns.data(), depth, last - first, last - first, 1};
          }
          T* target = out + (n * s.out_channels + g * out_group) * out_area + first;
          gemm_serial<T>(1.0, {weight + g * out_group * depth, out_group, depth, depth, 1}, right,
                         0.0, {target, out_group, last - first, out_area, 1});
          add_bias(target, out_group, out_area, last - first,
                   bias ? bias + g * out_group : nullptr);
        }
      });
}

template <typename T>
void convolve_transposed(const ConvolutionShape& s, const T* in, const T* weight, const T* bias,
                         T* out) {
  using Sum = slim::accumulate_t<T>;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const int64_t in_area = s.in_area(), out_area = s.out_area();
  if (s.batch == 0 || out_area == 0 || s.out_channels == 0) return;
  // Tasks are (image, output channel): so no two write to one address.
  const int64_t rows = s.kernel_area();
  const int64_t tasks = s.batch * s.out_channels;
  parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    // As many channels of one group per GEMM as fit.
    const int64_t fitting = std::max<int64_t>(1, 4 * kBlockBytes / static_cast<int64_t>(sizeof(T)) /
                                                     std::max<int64_t>(rows * in_area, 1));
    for (int64_t i = begin; i < end;) {
      const int64_t n = i / s.out_channels, o = i % s.out_channels, g = o / out_group;
      const int64_t in_this_group = out_group - o % out_group;
      const int64_t channels = std::min({fitting, in_this_group, end - i});
      Scratch<T> columns(channels * rows * in_area);
      Scratch<Sum> sums(channels * out_area);
      // [channels * rows, in_group] @ [in_group, in_area]
      const T* taps = weight + g * in_group * out_group * rows + o % out_group * rows;
      gemm_serial<T>(
          1.0, {taps, channels * rows, in_group, 1, out_group * rows},
          {in + (n * s.in_channels + g * in_group) * in_area, in_group, in_area, in_area, 1}, 0.0,
          {columns.data(), channels * rows, in_area, in_area, 1});
      for (int64_t c = 0; c < channels; ++c) {
        std::fill(sums.data() + c * out_area, sums.data() + (c + 1) * out_area,
                  bias ? static_cast<Sum>(bias[o + c]) : Sum(0));
      }
      fold(s, columns.data(), channels, sums.data());
      T* target = out + i * out_area;
      for (int64_t k = 0; k < channels * out_area; ++k) target[k] = static_cast<T>(sums[k]);
      i += channels;
    }
  });
}

#define PTERON_INSTANTIATE(T)                                                           \
  template void convolve<T>(const ConvolutionShape&, const T*, const T*, const T*, T*); \
  template void convolve_transposed<T>(const ConvolutionShape&, const T*, const T*, const T*, T*);
PTERON_INSTANTIATE(float)
PTERON_INSTANTIATE(double)
PTERON_INSTANTIATE(slim::Half)
PTERON_INSTANTIATE(slim::BFloat16)
#undef PTERON_INSTANTIATE

}  // namespace pteron::cpu
