// Convolutions of float images without unfolding them: every output is summed in registers, from a
// padded copy of a piece of the image that stays in the cache.
//
//   ConvolutionTensors tensors{in, in_strides, weight, weight_strides, bias, out, out_strides};
//   if (!convolve_direct(shape, tensors)) convolve(shape, ...);
//
// Images and weights may have any strides, so channels-last tensors are read as they are.
#pragma once

#include <cstdint>
#include <limits>

#include "pteron/backends/cpu/runtime/kernels/convolution.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"

namespace pteron::cpu {

// Floats between neighbours. Of weights: `outer` between output channels, `channel` between the
// input channels of a group, y and x between kernel positions.
struct ImageStrides {
  int64_t outer;  // images
  int64_t channel;
  int64_t y;
  int64_t x;
};

struct ConvolutionTensors {
  const float* in;
  ImageStrides in_strides;
  const float* weight;
  ImageStrides weight_strides;
  const float* bias;  // [out_channels] without gaps, or null
  float* out;
  ImageStrides out_strides;  // rows lie one after the other: y is width times x
};

// Weights and biases that are arranged for registers of neighbouring output channels: panels of
// `width` of them, the last one of a group filled up with zeros.
//
//   data   [groups, panels of a group, 1 + depth, width], where the first row is the bias and the
//          others are in the order of for_each_term(): kernel rows, kernel columns, channels; of a
//          depthwise convolution [1 + area of the kernel, channels rounded up to panels]
struct Panels {
  const float* data;
  int64_t width;  // a multiple of the lanes of a register
};

// out = the convolution + residual, bounded by `least` and `most`.
struct PanelTensors {
  const float* in;
  ImageStrides in_strides;  // any
  Panels weight;
  float* out;
  ImageStrides out_strides;            // channels have stride 1; rows lie one after the other
  const float* residual = nullptr;     // like out, or null
  ImageStrides residual_strides = {};  // channels have stride 1
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};

bool is_depthwise(const ConvolutionShape& shape);

// Whether convolve_direct() is the way to compute a shape on this machine: it has vector registers,
// nothing happens along the first dimension, and the image is not a matrix already, as planes for
// 1x1 kernels are (gemm.h).
bool is_convolved_directly(const ConvolutionShape& shape, bool channels_last);

// out = the convolution, as convolve() defines it, on the threads that the caller may use. The
// shape must be one that is_convolved_directly() takes. Throws std::bad_alloc.
void convolve_direct(const ConvolutionShape& shape, const ConvolutionTensors& tensors);

// The two ways to do so, with the kernels of a given instruction set.
//
// Registers hold neighbouring outputs of one channel; weights are read as they are. Any shape.
void convolve_by_positions(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                           const TileKernels& kernels);
// Registers hold neighbouring channels of one output; weights are rearranged first, for
// convolve_panels(), which images that are large for their number of channels repay, and depthwise
// ones always. Channels of in and out have stride 1.
void convolve_by_channels(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                          const TileKernels& kernels);
// The same over weights that are arranged. `shape.padding` is that before the image; what is read
// beyond its end is 0 as well. Offsets in some rows of the image, as many as the kernel reaches
// over, padding included, fit 32 bits. Throws std::bad_alloc.
void convolve_panels(const ConvolutionShape& shape, const PanelTensors& tensors,
                     const TileKernels& kernels);

}  // namespace pteron::cpu
