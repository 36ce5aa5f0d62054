// Convolutions of one to three spatial dimensions, transposed ones too.
#pragma once

#include <array>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// out[n, o, z] = bias[o] + sum over i, k of weight[o, i, k] * input[n, i, z * stride + k * dilation
// - padding], with i in the group of o. Transposed: each input[n, i, z] times weight[i, o, k] is
// added to out[n, o, z * stride + k * dilation - padding].
//
//   out     [batch, out channels, space...], row-major or channels-last
//   input   [batch, in channels, space...], any strides; all of one dtype
//   weight  [out channels, in channels / groups, kernel...], any strides; transposed:
//           [in channels, out channels / groups, kernel...]
//   bias    [out channels] without gaps, or null
//
// Kernels of devices that have the operator fused_convolution also add `residual` and store no
// number below 0 if `relu`.
struct ConvolutionCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& input;
  const slim::SlimTensor& weight;
  const slim::SlimTensor* bias;
  size_t dims;                    // spatial ones: 1 to 3; of the numbers below the last ones count
  std::array<int64_t, 3> stride;  // at least 1
  std::array<int64_t, 3> padding;
  std::array<int64_t, 3> dilation;  // at least 1
  bool transposed;
  int64_t groups;                              // divide both numbers of channels
  bool channels_last;                          // how out lies; the operands may lie otherwise
  const slim::SlimTensor* residual = nullptr;  // of the sizes and dtype of out, any strides
  bool relu = false;
};

}  // namespace pteron::aoti
