// Convolution and transposed convolution in one to three dimensions by im2col and GEMM.
#pragma once

#include <array>
#include <cstdint>

#include "pteron/runtime/core/error.h"

namespace pteron::cpu {

// Sizes of a convolution over depth, height and width; missing dimensions have size, stride and
// dilation 1 and no padding.
struct ConvolutionShape {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 1;   // over all groups
  int64_t out_channels = 1;  // over all groups
  std::array<int64_t, 3> in{1, 1, 1};
  std::array<int64_t, 3> out{1, 1, 1};
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};

  int64_t in_area() const { return in[0] * in[1] * in[2]; }
  int64_t out_area() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// Whether an output depends only on the input at its own position (1x1, stride 1).
bool is_pointwise(const ConvolutionShape& shape);

// out[n, o, z] = bias[o] + sum over i, k of in[n, i, z * stride + k * dilation - padding] *
// weight[o, i, k]
//
//   in      [batch, in_channels, in...]                          row-major
//   weight  [out_channels, in_channels / groups, kernel...]      row-major
//   bias    [out_channels], or null
//   out     [batch, out_channels, out...]                        row-major, every element is
//   written
//
// T: float, double, Half or BFloat16.
template <typename T>
void convolve(const ConvolutionShape& shape, const T* in, const T* weight, const T* bias, T* out);

// Transposed: each input element adds weight[i, o, k] times itself to out[n, o, y * stride + k *
// dilation - padding].
//
//   weight  [in_channels, out_channels / groups, kernel...]      row-major
template <typename T>
void convolve_transposed(const ConvolutionShape& shape, const T* in, const T* weight, const T* bias,
                         T* out);

}  // namespace pteron::cpu
