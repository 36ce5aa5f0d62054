#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"

namespace pteron::cpu {
namespace {

bool is_flat(const ConvolutionShape& s) {
  return s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0;
}

// Whether packing the weights costs less than transposing the image in and out.
bool suits_channels(const ConvolutionShape& s, const ConvolutionTensors& t, int lanes) {
  if (!is_flat(s) || t.in_strides.channel != 1 || t.out_strides.channel != 1) return false;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  const int64_t weights = s.out_channels * in_group * s.kernel_area();
  const int64_t images = s.batch * (s.in_channels * s.in_area() + s.out_channels * s.out_area());
  // Image offsets must fit 32 bits.
  const int64_t reach =
      s.kernel[1] * s.dilation[1] * t.in_strides.y + s.kernel[2] * s.dilation[2] * t.in_strides.x;
  if (reach + s.in_channels >= INT32_MAX) return false;
  return is_depthwise(s) || (2 * out_group >= lanes && weights < 2 * images);
}

}  // namespace

bool is_depthwise(const ConvolutionShape& s) {
  const int64_t of_channel = s.out_channels / s.groups;
  // With more outputs, a group's half fill a register.
  const bool are_few = s.groups > 1 && 2 * of_channel < kMostTileLanes;
  return s.in_channels == s.groups && (of_channel == 1 || are_few);
}

bool is_convolved_directly(const ConvolutionShape& s, bool channels_last) {
  const int64_t in_group = s.in_channels / s.groups;
  // Offsets in padded images and in weights must fit 32 bits.
  constexpr int64_t kMost = INT32_MAX / 4;
  const int64_t rows = s.in[1] + 2 * s.padding[1] + s.stride[1];
  const int64_t columns = s.in[2] + 2 * s.padding[2] + s.stride[2] + kMostTileLanes;
  return tile_kernels() != nullptr && (channels_last || !is_pointwise(s)) && in_group > 0 &&
         s.batch > 0 && in_group * s.kernel_area() < kMost && rows < kMost && columns < kMost &&
         rows * columns < kMost / s.in_channels / s.kernel[0];
}

void convolve_direct(const ConvolutionShape& shape, const ConvolutionTensors& tensors) {
  const TileKernels& kernels = *tile_kernels();
  // Groups with few channels use the shorter registers, which every such machine has.
  const TileKernels& shorter = tile_kernels_avx2();
  const int64_t together =
      is_depthwise(shape) ? shape.out_channels : shape.out_channels / shape.groups;
  const bool few = together <= shorter.lanes;
  const TileKernels& for_channels = few ? shorter : kernels;
  if (suits_channels(shape, tensors, for_channels.lanes)) {
    convolve_by_channels(shape, tensors, for_channels);
  } else {
    convolve_by_positions(shape, tensors, kernels);
  }
}

}  // namespace pteron::cpu
