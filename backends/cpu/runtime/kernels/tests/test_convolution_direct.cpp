// Both direct ways, with the kernels of every instruction set that this machine has, against the
// definition in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"

namespace pteron::cpu {
namespace {

using Pair = std::array<int64_t, 2>;

ConvolutionShape shape_of(int64_t batch, int64_t groups, Pair channels, Pair in, Pair kernel,
                          Pair stride, Pair padding, Pair dilation) {
  ConvolutionShape s;
  s.batch = batch;
  s.groups = groups;
  s.in_channels = channels[0];
  s.out_channels = channels[1];
  for (int d = 0; d < 2; ++d) {
    s.in[d + 1] = in[d];
    s.kernel[d + 1] = kernel[d];
    s.stride[d + 1] = stride[d];
    s.padding[d + 1] = padding[d];
    s.dilation[d + 1] = dilation[d];
    s.out[d + 1] = (in[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
  return s;
}

const std::vector<ConvolutionShape>& shapes() {
  static const std::vector<ConvolutionShape> all = {
      shape_of(1, 1, {3, 16}, {19, 21}, {3, 3}, {2, 2}, {1, 1}, {1, 1}),
      shape_of(2, 1, {5, 19}, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      shape_of(1, 1, {16, 70}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      shape_of(1, 1, {8, 48}, {33, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      shape_of(3, 1, {4, 9}, {6, 5}, {5, 4}, {1, 1}, {2, 0}, {1, 1}),
      shape_of(2, 3, {12, 15}, {11, 13}, {3, 3}, {2, 1}, {1, 1}, {1, 1}),
      shape_of(1, 1, {4, 8}, {5, 6}, {3, 3}, {1, 2}, {5, 7}, {2, 3}),      // padding beyond reach
      shape_of(1, 1, {6, 12}, {23, 24}, {4, 5}, {3, 4}, {1, 2}, {2, 2}),   // several phases
      shape_of(1, 1, {4, 20}, {20, 20}, {1, 1}, {4, 3}, {0, 0}, {1, 1}),   // one phase of many
      shape_of(1, 1, {2, 7}, {16, 24}, {8, 8}, {8, 8}, {0, 0}, {1, 1}),    // patches
      shape_of(1, 1, {3, 8}, {21, 20}, {3, 3}, {1, 1}, {8, 8}, {8, 8}),    // mostly padding
      shape_of(2, 1, {4, 33}, {1, 531}, {1, 5}, {1, 1}, {0, 2}, {1, 1}),   // one row, cut
      shape_of(1, 1, {2, 3}, {3, 1100}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),   // long rows, cut
      shape_of(1, 1, {2, 3}, {3, 2301}, {2, 3}, {1, 2}, {1, 3}, {2, 3}),   // and strided
      shape_of(1, 1, {9, 25}, {9, 9}, {9, 9}, {1, 1}, {0, 0}, {1, 1}),     // one output
      shape_of(1, 1, {150, 8}, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),  // several strips
      shape_of(2, 21, {21, 21}, {9, 14}, {3, 5}, {1, 2}, {1, 2}, {2, 1}),  // depthwise
      shape_of(1, 64, {64, 64}, {7, 8}, {3, 3}, {1, 1}, {0, 0}, {1, 1}),   // without padding
      shape_of(1, 6, {6, 12}, {7, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),     // multiplied channels
      shape_of(5, 2, {64, 160}, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),   // channels shared out
  };
  return all;
}

ConvolutionShape with_depth(ConvolutionShape s, int64_t in, int64_t kernel, int64_t stride,
                            int64_t padding, int64_t dilation) {
  s.in[0] = in;
  s.kernel[0] = kernel;
  s.stride[0] = stride;
  s.padding[0] = padding;
  s.dilation[0] = dilation;
  s.out[0] = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  return s;
}

// 2-d and 3-d.
std::vector<ConvolutionShape> shapes_and_volumes() {
  std::vector<ConvolutionShape> all = shapes();
  const auto flat = [](size_t i) { return shapes()[i]; };
  all.push_back(with_depth(flat(0), 5, 3, 2, 1, 1));
  all.push_back(with_depth(flat(4), 4, 2, 1, 0, 3));
  all.push_back(with_depth(flat(5), 6, 3, 1, 1, 2));   // groups
  all.push_back(with_depth(flat(6), 3, 3, 1, 1, 1));   // small images
  all.push_back(with_depth(flat(7), 7, 4, 3, 5, 1));   // some planes depend on the padding alone
  all.push_back(with_depth(flat(11), 2, 1, 1, 0, 1));  // rows that are split
  all.push_back(with_depth(flat(16), 3, 3, 1, 1, 1));  // depthwise
  all.push_back(with_depth(flat(18), 2, 2, 1, 1, 1));  // multiplied channels
  all.push_back(with_depth(flat(19), 4, 3, 1, 2, 2));  // channels shared out
  all.push_back(with_depth(flat(14), 3, 1, 1, 3, 1));  // one output in a plane
  return all;
}

// Dense strides of [outer, channels, depth, height, width], row-major or channels-last.
ImageStrides strides_of(int64_t channels, std::array<int64_t, 3> size, bool channels_last) {
  const auto [depth, height, width] = size;
  const int64_t plane = height * width, all = channels * depth * plane;
  if (channels_last) return {all, 1, width * channels, channels, plane * channels};
  return {all, depth * plane, width, 1, plane};
}

int64_t at(const ImageStrides& s, int64_t n, int64_t c, int64_t y, int64_t x, int64_t z = 0) {
  return n * s.outer + c * s.channel + z * s.z + y * s.y + x * s.x;
}

std::vector<float> numbers(int64_t count) {
  static std::mt19937 generator(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

double expected(const ConvolutionShape& s, const ConvolutionTensors& t, int64_t n, int64_t o,
                int64_t y, int64_t x, int64_t z = 0) {
  const int64_t in_group = s.in_channels / s.groups, g = o / (s.out_channels / s.groups);
  double sum = t.bias ? t.bias[o] : 0;
  const int64_t area = s.kernel[1] * s.kernel[2];
  for (int64_t c = 0; c < in_group; ++c) {
    for (int64_t k = 0; k < s.kernel_area(); ++k) {
      const int64_t kz = k / area, ky = k % area / s.kernel[2], kx = k % s.kernel[2];
      const int64_t in_z = z * s.stride[0] + kz * s.dilation[0] - s.padding[0];
      const int64_t in_y = y * s.stride[1] + ky * s.dilation[1] - s.padding[1];
      const int64_t in_x = x * s.stride[2] + kx * s.dilation[2] - s.padding[2];
      if (in_z < 0 || in_z >= s.in[0] || in_y < 0 || in_y >= s.in[1]) continue;
      if (in_x < 0 || in_x >= s.in[2]) continue;
      sum += double{t.in[at(t.in_strides, n, g * in_group + c, in_y, in_x, in_z)]} *
             t.weight[at(t.weight_strides, o, c, ky, kx, kz)];
    }
  }
  return sum;
}

// With a dense weight that is not channels last, and outputs that are.
ConvolutionTensors tensors_of(const ConvolutionShape& s, const std::vector<float>& in,
                              const std::vector<float>& weight, const float* bias, float* out,
                              bool in_is_channels_last = true) {
  return {in.data(),
          strides_of(s.in_channels, s.in, in_is_channels_last),
          weight.data(),
          strides_of(s.in_channels / s.groups, s.kernel, false),
          bias,
          out,
          strides_of(s.out_channels, s.out, true)};
}

using Way = void (*)(const ConvolutionShape&, const ConvolutionTensors&, const TileKernels&);

struct Layout {
  bool in, weight, out;  // channels-last
};

// Values of [outer, channels, size], which are row-major, with the strides of `strides_of`.
template <typename T>
std::vector<T> laid_out(const std::vector<T>& rows, int64_t channels, std::array<int64_t, 3> size,
                        bool channels_last) {
  if (!channels_last) return rows;
  const int64_t area = size[0] * size[1] * size[2];
  std::vector<T> values(rows.size());
  for (int64_t i = 0; i < static_cast<int64_t>(rows.size()); ++i) {
    const int64_t n = i / area / channels, c = i / area % channels;
    values[(n * area + i % area) * channels + c] = rows[i];
  }
  return values;
}

// One shape in several layouts, on 1, 2 and 5 threads; what is right is computed once.
void check(Way way, const TileKernels& kernels, const ConvolutionShape& s,
           const std::vector<Layout>& layouts, bool with_bias) {
  constexpr float kUntouched = 1234.5f;
  const int64_t in_group = s.in_channels / s.groups;
  const std::vector<float> in = numbers(s.batch * s.in_channels * s.in_area());
  const std::vector<float> weight = numbers(s.out_channels * in_group * s.kernel_area());
  const std::vector<float> bias = numbers(s.out_channels);
  const int64_t count = s.batch * s.out_channels * s.out_area();
  const ConvolutionTensors rows{in.data(),
                                strides_of(s.in_channels, s.in, false),
                                weight.data(),
                                strides_of(in_group, s.kernel, false),
                                with_bias ? bias.data() : nullptr,
                                nullptr,
                                strides_of(s.out_channels, s.out, false)};
  std::vector<double> right(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = i / s.out[2], plane = line / s.out[1], channel = plane / s.out[0];
    right[i] = expected(s, rows, channel / s.out_channels, channel % s.out_channels,
                        line % s.out[1], i % s.out[2], plane % s.out[0]);
  }
  const double terms = static_cast<double>(in_group * s.kernel_area());
  for (const Layout layout : layouts) {
    const std::vector<float> in_layout = laid_out(in, s.in_channels, s.in, layout.in);
    const std::vector<float> weight_layout = laid_out(weight, in_group, s.kernel, layout.weight);
    const std::vector<double> right_layout = laid_out(right, s.out_channels, s.out, layout.out);
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE("layout " + std::to_string(layout.in) + std::to_string(layout.weight) +
                   std::to_string(layout.out) + ", threads " + std::to_string(threads));
      const ThreadLimit limit(threads);
      std::vector<float> out(count + 32, kUntouched);
      way(s,
          {in_layout.data(), strides_of(s.in_channels, s.in, layout.in), weight_layout.data(),
           strides_of(in_group, s.kernel, layout.weight), rows.bias, out.data() + 16,
           strides_of(s.out_channels, s.out, layout.out)},
          kernels);
      for (int64_t i = 0; i < count; ++i) {
        // The bound grows with the partial sums.
        ASSERT_NEAR(out[16 + i], right_layout[i], 2e-6 + 2e-7 * terms) << "element " << i;
      }
      for (int i = 0; i < 16; ++i) {
        ASSERT_EQ(out[i], kUntouched);
        ASSERT_EQ(out[out.size() - 1 - i], kUntouched);
      }
    }
  }
}

class DirectConvolution : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const bool runs = GetParam() ? __builtin_cpu_supports("x86-64-v4") != 0
                                 : __builtin_cpu_supports("x86-64-v3") != 0;
    if (!runs) GTEST_SKIP() << "this machine lacks the instructions";
  }
  const TileKernels& kernels() { return GetParam() ? tile_kernels_avx512() : tile_kernels_avx2(); }
};

TEST_P(DirectConvolution, ByPositionsIsTheDefinition) {
  const std::vector<ConvolutionShape> all = shapes_and_volumes();
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE("shape " + std::to_string(i));
    check(convolve_by_positions, kernels(), all[i],
          {{false, false, false}, {true, true, true}, {true, false, true}, {false, true, true}},
          i % 2 == 0);
  }
}

TEST_P(DirectConvolution, ByChannelsIsTheDefinition) {
  for (size_t i = 0; i < shapes().size(); ++i) {
    SCOPED_TRACE("shape " + std::to_string(i));
    check(convolve_by_channels, kernels(), shapes()[i], {{true, true, true}, {true, false, true}},
          i % 2 == 1);
  }
}

// One accumulator for all terms has an error of 1.1e-6 here.
TEST_P(DirectConvolution, LongSumsAreAccurate) {
  const ConvolutionShape s = shape_of(4, 1, {128, 64}, {8, 8}, {8, 8}, {1, 1}, {0, 0}, {1, 1});
  std::vector<float> in = numbers(s.batch * s.in_channels * s.in_area());
  for (float& value : in) value = std::max(value, 0.0f);
  const std::vector<float> weight = numbers(s.out_channels * s.in_channels * s.kernel_area());
  std::vector<float> out(s.batch * s.out_channels);
  const ConvolutionTensors t = tensors_of(s, in, weight, nullptr, out.data());
  for (const Way way : {convolve_by_positions, convolve_by_channels}) {
    way(s, t, kernels());
    double errors = 0, squares = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t o = 0; o < s.out_channels; ++o) {
        const double right = expected(s, t, n, o, 0, 0);
        errors += std::pow(out[at(t.out_strides, n, o, 0, 0)] - right, 2);
        squares += right * right;
      }
    }
    EXPECT_LT(std::sqrt(errors / squares), 6e-7);
  }
}

// Panels of 16 channels, as they are arranged while lowering.
std::vector<float> arranged(const ConvolutionShape& s, const ConvolutionTensors& t) {
  constexpr int64_t kWidth = 16;
  const bool lanewise = is_depthwise(s);
  const int64_t groups = lanewise ? 1 : s.groups, out_group = s.out_channels / groups;
  const int64_t in_group = s.in_channels / s.groups, rows = 1 + in_group * s.kernel_area();
  const int64_t panels = (out_group + kWidth - 1) / kWidth;
  std::vector<float> data(groups * panels * rows * kWidth);
  for (int64_t o = 0; o < s.out_channels; ++o) {
    const int64_t g = o / out_group, panel = o % out_group / kWidth, lane = o % out_group % kWidth;
    const auto row = [&](int64_t k) -> float& {
      return lanewise ? data[(k * panels + panel) * kWidth + lane]
                      : data[((g * panels + panel) * rows + k) * kWidth + lane];
    };
    row(0) = t.bias ? t.bias[o] : 0;
    int64_t k = 0;
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky) {
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
        for (int64_t c = 0; c < in_group; ++c) {
          row(++k) = t.weight[at(t.weight_strides, o, c, ky, kx)];
        }
      }
    }
  }
  return data;
}

using PanelWay = void (*)(const ConvolutionShape&, const PanelTensors&, const TileKernels&);

// `way` on the panels that `arrange` makes, with residuals and bounds.
void check_panels(PanelWay way,
                  std::vector<float> (*arrange)(const ConvolutionShape&, const ConvolutionTensors&),
                  const std::vector<ConvolutionShape>& all, bool any_layout,
                  const TileKernels& kernels) {
  for (size_t i = 0; i < all.size(); ++i) {
    const ConvolutionShape& s = all[i];
    const std::vector<float> in = numbers(s.batch * s.in_channels * s.in_area());
    const int64_t in_group = s.in_channels / s.groups;
    const std::vector<float> weight = numbers(s.out_channels * in_group * s.kernel_area());
    const std::vector<float> bias = numbers(s.out_channels);
    const int64_t count = s.batch * s.out_channels * s.out_area();
    const std::vector<float> residual = numbers(count);
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE("shape " + std::to_string(i) + ", threads " + std::to_string(threads));
      const ThreadLimit limit(threads);
      const bool last = threads != 5 || !any_layout || is_depthwise(s), adds = threads != 1;
      std::vector<float> out(count + 16, 1234.5f);
      ConvolutionTensors t = tensors_of(s, in, weight, bias.data(), out.data(), last);
      const std::vector<float> data = arrange(s, t);
      PanelTensors panels{t.in, t.in_strides, {data.data(), 16}, t.out, t.out_strides};
      if (adds) {
        panels.residual = residual.data();
        panels.residual_strides = t.out_strides;
      }
      panels.least = -1;
      panels.most = 1.5;
      way(s, panels, kernels);
      ASSERT_EQ(std::vector<float>(out.begin() + count, out.end()),
                std::vector<float>(16, 1234.5f));
      const double terms = static_cast<double>(in_group * s.kernel_area());
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t o = 0; o < s.out_channels; ++o) {
          for (int64_t y = 0; y < s.out[1]; ++y) {
            for (int64_t x = 0; x < s.out[2]; ++x) {
              const int64_t to = at(t.out_strides, n, o, y, x);
              const double sum = expected(s, t, n, o, y, x) + (adds ? residual[to] : 0);
              ASSERT_NEAR(out[to], std::clamp(sum, -1.0, 1.5), 2e-6 + 2e-7 * terms)
                  << "image " << n << ", channel " << o << ", " << y << ", " << x;
            }
          }
        }
      }
    }
  }
}

TEST_P(DirectConvolution, PanelsAreTheDefinition) {
  std::vector<ConvolutionShape> all = shapes();
  // More below and on the right of the image than above and on the left; a product.
  all.push_back(shape_of(1, 1, {7, 40}, {14, 15}, {3, 3}, {2, 2}, {0, 0}, {1, 1}));
  all.back().out = {1, 7, 8};
  all.push_back(shape_of(3, 1, {70, 52}, {12, 11}, {1, 1}, {1, 1}, {0, 0}, {1, 1}));
  check_panels(convolve_panels, arranged, all, true, kernels());
}

TEST_P(DirectConvolution, DepthwiseIsTheDefinition) {
  const auto depthwise = [](int64_t channels, std::array<int64_t, 2> in,
                            std::array<int64_t, 2> kernel, std::array<int64_t, 2> stride,
                            std::array<int64_t, 2> padding, std::array<int64_t, 2> dilation) {
    return shape_of(2, channels, {channels, channels}, in, kernel, stride, padding, dilation);
  };
  std::vector<ConvolutionShape> all = {
      depthwise(16, {19, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),  // blocks of pixels
      depthwise(70, {17, 21}, {3, 3}, {2, 2}, {1, 1}, {1, 1}),  // a part of a register
      depthwise(1000, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),  // blocks of channels
      depthwise(200, {7, 7}, {7, 7}, {1, 1}, {3, 3}, {1, 1}),   // all outputs at the border
      depthwise(33, {16, 16}, {3, 3}, {1, 1}, {12, 12}, {12, 12}),
      depthwise(20, {1, 301}, {1, 31}, {1, 1}, {0, 15}, {1, 1}),  // one row, cut
      depthwise(5, {6, 5}, {2, 2}, {1, 1}, {4, 3}, {1, 1}),       // outputs of padding alone
      depthwise(130, {3, 2}, {3, 5}, {1, 2}, {1, 4}, {1, 2}),     // a kernel wider than the image
  };
  // Several outputs of a channel: in registers, beyond them, in blocks, and with a part of a register.
  for (const auto& [channels, repeats] : {Pair{24, 2}, {11, 3}, {300, 2}, {70, 5}, {9, 7}}) {
    all.push_back(shape_of(2, channels, {channels, channels * repeats}, {9, 21}, {3, 5}, {2, 1},
                           {1, 2}, {1, 2}));
  }
  check_panels(convolve_panels, arranged, all, false, kernels());
}

// Panels of the transformed kernels of 4 x 4: G w G', where G has the rows 1 0 0, 1/2 1/2 1/2, 1/2 -1/2
// 1/2, 0 0 1.
std::vector<float> transformed(const ConvolutionShape& s, const ConvolutionTensors& t) {
  constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  std::vector<float> weight(s.out_channels * s.in_channels * 16);
  for (int64_t i = 0; i < s.out_channels * s.in_channels * 16; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 9; ++k) {
      const float value = t.weight[at(t.weight_strides, i / 16 / s.in_channels,
                                      i / 16 % s.in_channels, k / 3, k % 3)];
      sum += kG[i % 16 / 4][k / 3] * value * kG[i % 4][k % 3];
    }
    weight[i] = static_cast<float>(sum);
  }
  ConvolutionShape of_four = s;
  of_four.kernel = {1, 4, 4};
  ConvolutionTensors tensors = t;
  tensors.weight = weight.data();
  tensors.weight_strides = strides_of(s.in_channels, of_four.kernel, false);
  return arranged(of_four, tensors);
}

TEST_P(DirectConvolution, WinogradIsTheDefinition) {
  const auto shape = [](int64_t batch, Pair channels, Pair in, Pair padding) {
    return shape_of(batch, 1, channels, in, {3, 3}, {1, 1}, padding, {1, 1});
  };
  std::vector<ConvolutionShape> all = {
      shape(1, {32, 48}, {8, 10}, {1, 1}), shape(2, {37, 53}, {7, 5}, {1, 1}),  // odd
      shape(1, {5, 3}, {3, 3}, {0, 0}),  // one output of a block
      shape(3, {1, 100}, {1, 9}, {1, 0}),  shape(1, {600, 17}, {4, 4}, {1, 1}),  // long sums
      shape(1, {6, 33}, {23, 31}, {2, 4}),  // blocks outside of the image
      shape(5, {64, 160}, {2, 4}, {1, 1}),  // channels shared out
  };
  // More below and on the right of the image than above and on the left.
  all.push_back(shape(1, {7, 40}, {14, 15}, {0, 0}));
  all.back().out = {1, 14, 16};
  check_panels(convolve_winograd, transformed, all, false, kernels());
}

// Infinities and NaNs of pixels reach the outputs that depend on them, as what they are.
TEST_P(DirectConvolution, WinogradOfWhatIsNotFiniteIsTheDefinition) {
  const ConvolutionShape s = shape_of(1, 1, {20, 50}, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1});
  std::vector<float> in = numbers(s.in_channels * s.in_area());
  const ImageStrides in_strides = strides_of(s.in_channels, s.in, true);
  in[at(in_strides, 0, 3, 2, 3)] = INFINITY;
  in[at(in_strides, 0, 7, 3, 3)] = -INFINITY;
  in[at(in_strides, 0, 19, 8, 7)] = -INFINITY;
  in[at(in_strides, 0, 0, 6, 0)] = NAN;
  const std::vector<float> weight = numbers(s.out_channels * s.in_channels * 9);
  const std::vector<float> bias = numbers(s.out_channels);
  const std::vector<float> residual = numbers(s.out_channels * s.out_area());
  std::vector<float> out(residual.size());
  const ConvolutionTensors t = tensors_of(s, in, weight, bias.data(), out.data());
  const std::vector<float> data = transformed(s, t);
  PanelTensors panels{t.in, t.in_strides, {data.data(), 16}, t.out, t.out_strides};
  panels.residual = residual.data();
  panels.residual_strides = t.out_strides;
  panels.least = 0;
  panels.most = 3;
  convolve_winograd(s, panels, kernels());
  int infinite = 0, undefined = 0;
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t i = 0; i < s.out_area(); ++i) {
      const int64_t to = at(t.out_strides, 0, o, i / 8, i % 8);
      const double right = expected(s, t, 0, o, i / 8, i % 8) + residual[to];
      infinite += std::isinf(right);
      undefined += std::isnan(right);
      if (std::isnan(right)) {
        ASSERT_TRUE(std::isnan(out[to])) << o << ", " << i;
      } else {
        ASSERT_NEAR(out[to], std::clamp(right, 0.0, 3.0), 1e-4) << o << ", " << i;
      }
    }
  }
  EXPECT_GT(infinite, 500);
  EXPECT_GT(undefined, 100);
}

// Its rounding is at most three times that of the sum of all products.
TEST_P(DirectConvolution, WinogradIsAccurate) {
  const ConvolutionShape s = shape_of(1, 1, {256, 16}, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1});
  std::vector<float> in = numbers(s.in_channels * s.in_area());
  for (float& value : in) value = std::max(value, 0.0f);
  const std::vector<float> weight = numbers(s.out_channels * s.in_channels * 9);
  std::vector<float> out(s.out_channels * s.out_area());
  const ConvolutionTensors t = tensors_of(s, in, weight, nullptr, out.data());
  double errors[2] = {}, squares = 0;
  for (const bool is_winograd : {false, true}) {
    const std::vector<float> data = is_winograd ? transformed(s, t) : arranged(s, t);
    const PanelTensors panels{t.in, t.in_strides, {data.data(), 16}, t.out, t.out_strides};
    (is_winograd ? convolve_winograd : convolve_panels)(s, panels, kernels());
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t i = 0; i < s.out_area(); ++i) {
        const double right = expected(s, t, 0, o, i / 14, i % 14);
        errors[is_winograd] += std::pow(out[at(t.out_strides, 0, o, i / 14, i % 14)] - right, 2);
        squares += right * right;
      }
    }
  }
  EXPECT_LT(std::sqrt(errors[1]), 3 * std::sqrt(errors[0]));
  EXPECT_LT(std::sqrt(errors[1] / squares), 6e-7);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, DirectConvolution, testing::Bool(),
                         [](const auto& info) { return info.param ? "Avx512" : "Avx2"; });

// Infinities and NaNs of one output's inputs reach that output alone, not those that share its
// registers or its padding.
TEST(DirectConvolutionOfWhatIsNotFinite, StaysWhereItBelongs) {
  if (!tile_kernels()) GTEST_SKIP() << "this machine lacks the instructions";
  const ConvolutionShape s = shape_of(1, 1, {2, 8}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1});
  for (const bool last : {false, true}) {
    std::vector<float> in(2 * 49, 1.0f), weight(8 * 2 * 9, 1.0f), out(8 * 49);
    const ImageStrides in_strides = strides_of(2, {1, 7, 7}, last);
    in[at(in_strides, 0, 1, 3, 6)] = INFINITY;
    const ConvolutionTensors t{in.data(),
                               in_strides,
                               weight.data(),
                               strides_of(2, {1, 3, 3}, last),
                               nullptr,
                               out.data(),
                               strides_of(8, {1, 7, 7}, last)};
    convolve_direct(s, t);
    for (int64_t y = 0; y < 7; ++y) {
      for (int64_t x = 0; x < 7; ++x) {
        EXPECT_EQ(std::isfinite(out[at(t.out_strides, 0, 5, y, x)]), y < 2 || y > 4 || x < 5);
      }
    }
  }
}

TEST(IsConvolvedDirectly, LeavesWhatOthersDoBetter) {
  const auto direct = [](int64_t groups, Pair channels, Pair kernel, bool last) {
    return is_convolved_directly(
        shape_of(1, groups, channels, {9, 9}, kernel, {1, 1}, {0, 0}, {1, 1}), last);
  };
  EXPECT_EQ(direct(1, {8, 8}, {3, 3}, false), tile_kernels() != nullptr);
  EXPECT_EQ(direct(1, {8, 8}, {1, 1}, true), tile_kernels() != nullptr);
  EXPECT_FALSE(direct(1, {8, 8}, {1, 1}, false));  // a GEMM
  // The padded image has more elements than 64 bits can count.
  const int64_t most = INT64_C(3) << 30;
  EXPECT_FALSE(is_convolved_directly(
      shape_of(1, 1, {8, 8}, {9, 9}, {3, 3}, {1, 1}, {most, most}, {1, 1}), true));
  const ConvolutionShape flat = shape_of(1, 1, {8, 8}, {9, 9}, {1, 1}, {1, 1}, {0, 0}, {1, 1});
  EXPECT_EQ(is_convolved_directly(with_depth(flat, 4, 3, 1, 1, 1), false),
            tile_kernels() != nullptr);
  EXPECT_FALSE(is_convolved_directly(with_depth(flat, 4, 1, 1, 0, 1), false));
}

}  // namespace
}  // namespace pteron::cpu
