#include "backends/cpu/runtime/kernels/depthwise.h"

#include <algorithm>

namespace pteron::cpu {
namespace {

// Outputs of a row are computed in blocks of so many, the last of which may reach further.
constexpr int64_t kNarrowBlock = 8;
// Larger padded planes than this are not worth a copy.
constexpr int64_t kMostFloats = 4 * 1024 * 1024;

}  // namespace

void depthwise_plane_baseline(const ConvolutionShape&, const float*, const float*, float, float*,
                              float*);
void depthwise_plane_avx2(const ConvolutionShape&, const float*, const float*, float, float*,
                          float*);
void depthwise_plane_avx512(const ConvolutionShape&, const float*, const float*, float, float*,
                            float*);

int64_t depthwise_row_length(const ConvolutionShape& s) {
  const int64_t outputs = (s.out[2] + kNarrowBlock - 1) / kNarrowBlock * kNarrowBlock;
  const int64_t read = (outputs - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
  return std::max(read, s.in[2] + 2 * s.padding[2]);
}

int64_t depthwise_workspace(const ConvolutionShape& s) {
  return depthwise_row_length(s) * (s.in[1] + 2 * s.padding[1]);
}

bool is_depthwise_plane(const ConvolutionShape& s) {
  return s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0 &&
         depthwise_workspace(s) <= kMostFloats;
}

DepthwisePlane depthwise_plane() {
  static const DepthwisePlane plane = [] {
    if (__builtin_cpu_supports("x86-64-v4")) return depthwise_plane_avx512;
    if (__builtin_cpu_supports("x86-64-v3")) return depthwise_plane_avx2;
    return depthwise_plane_baseline;
  }();
  return plane;
}

}  // namespace pteron::cpu
