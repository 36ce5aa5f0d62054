// Direct convolution; a register holds neighbouring channels of one output position.
#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_terms.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"

namespace pteron::cpu {

void convolve_by_channels(const ConvolutionShape& s, const ConvolutionTensors& t,
                          const TileKernels& kernels) {
  const bool lanewise = is_depthwise(s);
  const int64_t groups = lanewise ? 1 : s.groups, lanes = kernels.lanes;
  const int64_t out_group = s.out_channels / groups;
  const int64_t rows = 1 + s.in_channels / s.groups * s.kernel_area();
  const int64_t panels = divided_up(out_group, lanes);
  Scratch<int64_t> offsets(rows);
  for_each_term(s, true, [&](int64_t k, int64_t channel, int64_t ky, int64_t kx) {
    const ImageStrides& w = t.weight_strides;
    offsets[1 + k] = channel * w.channel + ky * w.y + kx * w.x;
  });
  Scratch<float> data(groups * panels * rows * lanes);
  const auto arrange = [&](int64_t panel) {
    const int64_t first = panel / panels * out_group + panel % panels * lanes;
    const int64_t count = std::min(lanes, out_group - panel % panels * lanes);
    const int64_t pitch = lanewise ? panels * lanes : lanes;
    float* to = data.data() + panel * (lanewise ? lanes : rows * lanes);
    for (int64_t l = 0; l < lanes; ++l) to[l] = t.bias && l < count ? t.bias[first + l] : 0.0f;
    for (int64_t k = 1; k < rows; ++k) {
      to += pitch;
      const float* from = t.weight + first * t.weight_strides.outer + offsets[k];
      for (int64_t l = 0; l < count; ++l) to[l] = from[l * t.weight_strides.outer];
      std::fill(to + count, to + lanes, 0.0f);
    }
  };
  parallel_for(groups * panels, 32768 / (lanes * rows) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) arrange(panel);
  });
  convolve_panels(s, {t.in, t.in_strides, {data.data(), lanes}, t.out, t.out_strides}, kernels);
}

}  // namespace pteron::cpu
