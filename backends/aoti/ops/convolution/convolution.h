// Convolution and transposed convolution with one to three spatial dimensions.
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
//   bias    [out channels], contiguous, or null
//
// Devices with the operator fused_convolution also add `residual` and apply relu if `relu`.
struct ConvolutionCall {
  const slim::SlimTensor& out;
  const slim::SlimTensor& input;
  const slim::SlimTensor& weight;
  const slim::SlimTensor* bias;
  size_t dims;                    // spatial dimensions, 1 to 3; arrays below use their last entries
  std::array<int64_t, 3> stride;  // at least 1
  std::array<int64_t, 3> padding;
  std::array<int64_t, 3> dilation;  // at least 1
  bool transposed;
  int64_t groups;                              // divides both channel counts
  bool channels_last;                          // layout of out; operands may differ
  const slim::SlimTensor* residual = nullptr;  // same sizes and dtype as out, any strides
  bool relu = false;
};

}  // namespace pteron::aoti
