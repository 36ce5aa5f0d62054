// Depthwise convolution; a register holds neighbouring channels of one output position. The image is
// not copied: outputs at its border have fewer terms.
#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"

namespace pteron::cpu {
namespace {

// Bytes of weights, which are read for every eight outputs, that stay in the L1 cache.
constexpr int64_t kBlockBytes = 32 * 1024;
// A row of outputs is split into parts if there are fewer rows than this for each thread.
constexpr int64_t kRowsPerThread = 4;
constexpr int64_t kLeastWidth = 16;

}  // namespace

void convolve_depthwise(const ConvolutionShape& s, const PanelTensors& t,
                        const TileKernels& kernels) {
  if (s.batch * s.out_area() == 0) return;
  const int64_t repeats = s.out_channels / s.in_channels;
  const int64_t lanes = kernels.lanes, vectors = divided_up(s.out_channels, lanes);
  const int64_t weight_stride = divided_up(s.out_channels, t.weight.width) * t.weight.width;
  const int64_t most =
      std::max<int64_t>(kBlockBytes / (s.kernel_area() * lanes * int64_t{sizeof(float)}), 4);
  const int64_t rows = s.batch * s.out[1], threads = max_threads();
  const int64_t pieces = std::clamp<int64_t>(divided_up(kRowsPerThread * threads, rows), 1,
                                             divided_up(s.out[2], kLeastWidth));
  const auto compute = [&](int64_t piece, int64_t first, int64_t last) {
    const int64_t row = piece / pieces, n = row / s.out[1], y = row % s.out[1];
    const Inside ky(s, 1, y);
    const float* const weight = t.weight.data + first * lanes;
    DepthwiseRow r;
    r.in = t.in + n * t.in_strides.outer + first * lanes / repeats +
           (y * s.stride[1] - s.padding[1] + ky.first * s.dilation[1]) * t.in_strides.y;
    r.line = s.dilation[1] * t.in_strides.y;
    r.pixel = t.in_strides.x;
    r.width = s.in[2];
    r.bias = weight;
    r.weight = weight + (1 + ky.first * s.kernel[2]) * weight_stride;
    r.weight_stride = weight_stride;
    r.kernel_rows = ky.last - ky.first;
    r.kernel_columns = s.kernel[2];
    r.stride = s.stride[2];
    r.dilation = s.dilation[2];
    r.padding = s.padding[2];
    r.begin = part_begin(s.out[2], pieces, piece % pieces);
    r.end = part_begin(s.out[2], pieces, piece % pieces + 1);
    r.out = t.out + n * t.out_strides.outer + y * t.out_strides.y + first * lanes;
    r.out_pixel = t.out_strides.x;
    r.residual = t.residual ? t.residual + n * t.residual_strides.outer + y * t.residual_strides.y +
                                  first * lanes
                            : nullptr;
    r.residual_pixel = t.residual_strides.x;
    r.channels = std::min((last - first) * lanes, s.out_channels - first * lanes);
    r.repeats = repeats;
    r.phase = first * lanes % repeats;
    r.least = t.least;
    r.most = t.most;
    kernels.depthwise(r);
  };
  const auto run = [&](int64_t begin, int64_t end, int64_t first, int64_t last) {
    const int64_t blocks = divided_up(last - first, most);
    for (int64_t i = 0; i < blocks; ++i) {
      for (int64_t piece = begin; piece < end; ++piece) {
        compute(piece, first + part_begin(last - first, blocks, i),
                first + part_begin(last - first, blocks, i + 1));
      }
    }
  };
  const int64_t all = rows * pieces;
  const auto share = [&](int64_t size) {  // of the thread that has the most
    return static_cast<double>(divided_up(size, threads)) / static_cast<double>(size);
  };
  if (share(vectors) < (1 - kWorthSharingChannels) * share(all)) {
    parallel_for(vectors, grain_of(rows * s.out[2] * s.kernel_area() * lanes),
                 [&](int64_t begin, int64_t end) { run(0, all, begin, end); });
  } else {
    parallel_for(all, grain_of(s.out[2] / pieces * s.kernel_area() * s.out_channels),
                 [&](int64_t begin, int64_t end) { run(begin, end, 0, vectors); });
  }
}

}  // namespace pteron::cpu
