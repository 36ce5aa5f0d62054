// 2-D convolution with weights packed at lowering.
#pragma once

#include <array>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[n, o, y, x] = residual[n, o, y, x] + bias[o] + sum over i, k of weight[o, i, k] * input[n, i,
// (y, x) * stride + k * dilation - padding], clamped to [`least`, `most`]. The input is
// zero-padded.
//
//   out       [batch, out channels, height, width], channels last; not empty
//   input     [batch, in channels, height, width], any strides
//   weight    packed weights and bias, contiguous; layout: ../convolution/convolution.py
//   residual  like out, any strides, or null; all of one dtype
struct PackedConvolutionCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& input;
  const slim::SlimTensor& weight;
  const slim::SlimTensor* residual;
  std::array<int64_t, 3> kernel, stride;  // all four use their last two entries
  std::array<int64_t, 3> padding;         // above and left
  std::array<int64_t, 3> dilation;
  int64_t groups;
  float least, most;
  bool is_winograd;  // the weight is transformed: kernel 3 x 3, stride and dilation 1, one group
};

}  // namespace pteron::aoti
