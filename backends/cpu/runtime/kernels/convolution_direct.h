// Direct float32 convolution without im2col: outputs accumulate in registers, from a padded copy of
// a part of the image that stays in cache.
//
//   ConvolutionTensors tensors{in, in_strides, weight, weight_strides, bias, out, out_strides};
//   if (!convolve_direct(shape, tensors)) convolve(shape, ...);
//
// Images and weights may have any strides, so channels-last tensors are not copied.
#pragma once

#include <cstdint>
#include <limits>

#include "pteron/backends/cpu/runtime/kernels/convolution.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_tile.h"

namespace pteron::cpu {

// Strides in elements. Of weights: `outer` between output channels, `channel` between the input
// channels of a group, z, y and x between kernel positions.
struct ImageStrides {
  int64_t outer;  // images
  int64_t channel;
  int64_t y;
  int64_t x;
  int64_t z = 0;
};

struct ConvolutionTensors {
  const float* in;
  ImageStrides in_strides;
  const float* weight;
  ImageStrides weight_strides;
  const float* bias;  // [out_channels], contiguous, or null
  float* out;
  ImageStrides out_strides;  // rows are contiguous: stride y is width times stride x
};

// Weights and biases packed for registers of neighbouring output channels: panels of `width`
// channels, the last panel of a group zero-padded.
//
//   data   [groups, panels of a group, 1 + depth, width], where the first row is the bias and the
//          others are in the order of for_each_term(): kernel rows, kernel columns, channels; of a
//          depthwise convolution [1 + area of the kernel, channels rounded up to panels]
struct Panels {
  const float* data;
  int64_t width;  // a multiple of the vector width
};

// out = the convolution + residual, bounded by `least` and `most`.
struct PanelTensors {
  const float* in;
  ImageStrides in_strides;  // any; for depthwise and Winograd's convolutions channels have stride 1
  Panels weight;
  float* out;
  ImageStrides out_strides;            // channels have stride 1; rows are contiguous
  const float* residual = nullptr;     // like out, or null
  ImageStrides residual_strides = {};  // channels have stride 1
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};

// Whether each channel is convolved alone, to one channel or a few.
bool is_depthwise(const ConvolutionShape& shape);

// Whether convolve_direct() should be used: the machine has vector registers, and the convolution is
// not directly a GEMM (1x1 kernels of NCHW images, gemm.h).
bool is_convolved_directly(const ConvolutionShape& shape, bool channels_last);

// out = the convolution, as convolve() defines it, on the threads that the caller may use. The
// shape must be one that is_convolved_directly() takes. Throws std::bad_alloc.
void convolve_direct(const ConvolutionShape& shape, const ConvolutionTensors& tensors);

// The two implementations, with the kernels of a given instruction set.
//
// Registers hold neighbouring output positions of one channel; weights are read unpacked. Any
// shape.
void convolve_by_positions(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                           const TileKernels& kernels);
// Registers hold neighbouring channels of one output position; weights are packed first, for
// convolve_panels(). Pays off for images that are large relative to their channels, and always for
// depthwise convolutions. At most 2-d; channels of in and out have stride 1.
void convolve_by_channels(const ConvolutionShape& shape, const ConvolutionTensors& tensors,
                          const TileKernels& kernels);
// The same with packed weights. At most 2-d. `shape.padding` is the padding before the image; reads beyond its
// end are 0 as well. Offsets in as many padded rows as the kernel covers must fit 32 bits. Throws
// std::bad_alloc.
void convolve_panels(const ConvolutionShape& shape, const PanelTensors& tensors,
                     const TileKernels& kernels);
// The same of a depthwise convolution, which convolve_panels() passes on. Offsets may be of any size.
void convolve_depthwise(const ConvolutionShape& shape, const PanelTensors& tensors,
                        const TileKernels& kernels);
// The same by Winograd's F(2 x 2, 3 x 3), for 3 x 3 kernels with stride and dilation 1, in one group:
// 4 x 4 products for 2 x 2 outputs, 16 instead of 36. `weight` has panels of the transformed 4 x 4
// kernels. Outputs that are not finite are computed by the definition.
void convolve_winograd(const ConvolutionShape& shape, const PanelTensors& tensors,
                       const TileKernels& kernels);

}  // namespace pteron::cpu
