#include "pteron/backends/aoti/ops/convolution/convolution.h"

#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/cpu/runtime/kernels/convolution.h"
#include "pteron/backends/cpu/runtime/kernels/convolution_direct.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::ConvolutionCall;

ConvolutionShape shape_of(const ConvolutionCall& call) {
  ConvolutionShape s;
  s.batch = call.input.size(0);
  s.groups = call.groups;
  s.in_channels = call.input.size(1);
  s.out_channels = call.out.size(1);
  for (size_t d = 0; d < call.dims; ++d) {
    const size_t k = 3 - call.dims + d;
    s.in[k] = call.input.size(2 + d);
    s.out[k] = call.out.size(2 + d);
    s.kernel[k] = call.weight.size(2 + d);
  }
  s.stride = call.stride;
  s.padding = call.padding;
  s.dilation = call.dilation;
  return s;
}

// Of a tensor of 3 to 5 dimensions.
ImageStrides image_strides(const SlimTensor& tensor) {
  const size_t n = tensor.dim();
  return {tensor.stride(0), tensor.stride(1), n > 3 ? tensor.stride(n - 2) : 0,
          tensor.stride(n - 1), n > 4 ? tensor.stride(2) : 0};
}

// Dense, row-major or channels last; otherwise a row-major copy.
Result<TensorPtr> dense_weight(const SlimTensor& weight) {
  const ImageStrides strides = image_strides(weight);
  const bool last = slim::is_channels_last(weight) && strides.channel == 1 &&
                    strides.outer * weight.size(0) == weight.numel();
  if (last) return slim::make_alias(weight);
  return slim::contiguous_tensor(weight);
}

Error convolve_in_place(const ConvolutionShape& shape, const ConvolutionCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr weight, dense_weight(call.weight));
  convolve_direct(shape, {call.input.data_as<const float>(), image_strides(call.input),
                          weight->data_as<const float>(), image_strides(*weight),
                          call.bias ? call.bias->data_as<const float>() : nullptr,
                          call.out.data_as<float>(), image_strides(call.out)});
  return Error::Ok;
}

template <typename T>
Error convolve_row_major(const ConvolutionShape& shape, const ConvolutionCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr input, slim::contiguous_tensor(call.input));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr weight, slim::contiguous_tensor(call.weight));
  TensorPtr aside;
  if (call.channels_last) {
    PTERON_ASSIGN_OR_RETURN(aside, slim::make_tensor(call.out.sizes(), call.out.dtype()));
  }
  (call.transposed ? convolve_transposed<T>
                   : convolve<T>)(shape, input->data_as<const T>(), weight->data_as<const T>(),
                                  call.bias ? call.bias->data_as<const T>() : nullptr,
                                  (aside ? *aside : call.out).data_as<T>());
  return aside ? slim::copy_tensor(call.out, *aside) : Error(Error::Ok);
}

}  // namespace

Error convolution(const ConvolutionCall& call) {
  const ConvolutionShape shape = shape_of(call);
  if (call.input.dtype() == DType::Float && !call.transposed &&
      is_convolved_directly(shape, call.channels_last)) {
    return convolve_in_place(shape, call);
  }
  PTERON_DISPATCH_FLOATING(call.input.dtype(), T, return convolve_row_major<T>(shape, call));
  return aoti::no_kernel_for(call.input);
}

}  // namespace pteron::cpu
