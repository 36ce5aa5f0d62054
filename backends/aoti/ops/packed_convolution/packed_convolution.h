// Convolutions of images with weights that were arranged while lowering.
#pragma once

#include <array>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[n, o, y, x] = residual[n, o, y, x] + bias[o] + sum over i, k of weight[o, i, k] *
// input[n, i, (y, x) * stride + k * dilation - padding], but no less than `least` and no more than
// `most`. What is read outside the input is 0.
//
//   out       [batch, out channels, height, width], channels last; not empty
//   input     [batch, in channels, height, width], any strides
//   weight    weights and bias without gaps, arranged as ../convolution/convolution.py says
//   residual  like out, any strides, or null; all of one dtype
struct PackedConvolutionCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& input;
  const slim::SlimTensor& weight;
  const slim::SlimTensor* residual;
  std::array<int64_t, 3> kernel, stride;  // of all four the last two count
  std::array<int64_t, 3> padding;         // above and left
  std::array<int64_t, 3> dilation;
  int64_t groups;
  float least, most;
};

}  // namespace pteron::aoti
