#include "pteron/backends/aoti/ops/packed_convolution/packed_convolution.h"

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// Panel width for every machine: two AVX2 registers, one AVX-512 register.
constexpr int64_t kPanel = 16;

ConvolutionShape shape_of(const aoti::PackedConvolutionCall& call) {
  ConvolutionShape s;
  s.batch = call.input.size(0);
  s.groups = call.groups;
  s.in_channels = call.input.size(1);
  s.out_channels = call.out.size(1);
  for (size_t d = 1; d < 3; ++d) {
    s.in[d] = call.input.size(d + 1);
    s.out[d] = call.out.size(d + 1);
  }
  s.kernel = call.kernel;
  s.stride = call.stride;
  s.padding = call.padding;
  s.dilation = call.dilation;
  return s;
}

ImageStrides strides_of(const SlimTensor& tensor) {
  return {tensor.stride(0), tensor.size(1) == 1 ? 1 : tensor.stride(1), tensor.stride(2),
          tensor.stride(3)};
}

// Offsets in the rows that a kernel covers must fit 32 bits.
bool has_short_offsets(const ConvolutionShape& s) {
  const auto reach = [&](int d) { return (s.kernel[d] - 1) * s.dilation[d] + 1; };
  const double columns = static_cast<double>(s.out[2]) * s.stride[2] + reach(2);
  const double terms = static_cast<double>(s.in_channels) * s.kernel_area();
  return columns * reach(1) * s.in_channels < INT32_MAX / 2 && terms * kPanel < INT32_MAX / 2;
}

// Replaces a tensor whose channels are apart by a copy.
Error put_channels_inside(const SlimTensor*& tensor, TensorPtr& copy) {
  if (strides_of(*tensor).channel == 1) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(
      copy, aoti::make_channels_last(tensor->sizes(), tensor->dtype(), tensor->device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, *tensor));
  tensor = copy.get();
  return Error::Ok;
}

}  // namespace

Error packed_convolution(const aoti::PackedConvolutionCall& call) {
  if (call.input.dtype() != DType::Float) return aoti::no_kernel_for(call.input);
  const ConvolutionShape shape = shape_of(call);
  PTERON_CHECK_OR_RETURN(tile_kernels() != nullptr, Error::NotSupported,
                         "convolutions with packed weights need AVX2, which this processor lacks; "
                         "lower the model for isa=\"x86-64-v2\"");
  PTERON_CHECK_OR_RETURN(has_short_offsets(shape), Error::NotSupported,
                         "found input %s, expected shorter rows", call.input.describe().c_str());
  TensorPtr input_aside, residual_aside;
  const SlimTensor *input = &call.input, *residual = call.residual;
  if (call.is_winograd || is_depthwise(shape)) {
    PTERON_RETURN_IF_ERROR(put_channels_inside(input, input_aside));
  }
  if (residual) PTERON_RETURN_IF_ERROR(put_channels_inside(residual, residual_aside));
  PanelTensors tensors{input->data_as<const float>(),
                       strides_of(*input),
                       {call.weight.data_as<const float>(), kPanel},
                       call.out.data_as<float>(),
                       strides_of(call.out)};
  if (residual) {
    tensors.residual = residual->data_as<const float>();
    tensors.residual_strides = strides_of(*residual);
  }
  tensors.least = call.least;
  tensors.most = call.most;
  // Groups with few channels use the shorter registers, which every such machine has.
  const int64_t together =
      is_depthwise(shape) ? shape.out_channels : shape.out_channels / shape.groups;
  const TileKernels& shorter = tile_kernels_avx2();
  const TileKernels& kernels = together <= shorter.lanes ? shorter : *tile_kernels();
  (call.is_winograd ? convolve_winograd : convolve_panels)(shape, tensors, kernels);
  return Error::Ok;
}

}  // namespace pteron::cpu
