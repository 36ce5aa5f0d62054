#include "pteron/backends/aoti/ops/convolution/convolution.h"

#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/shims/convolution.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

// Dense, in the given memory format and aligned, as kernels require: `tensor` itself if it is, else
// `copy`.
Result<const SlimTensor*> packed(const SlimTensor& tensor, bool channels_last, TensorPtr& copy) {
  constexpr uintptr_t kAlignment = 16;
  const bool is_aligned = reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment == 0;
  int64_t strides[slim::kMaxDims];
  if (channels_last) {
    slim::channels_last_strides(tensor.sizes(), strides);
  } else {
    slim::contiguous_strides(tensor.sizes(), strides);
  }
  bool is_packed = true;
  for (size_t d = 0; d < tensor.dim(); ++d) {
    is_packed = is_packed && (tensor.size(d) == 1 || tensor.stride(d) == strides[d]);
  }
  if ((is_packed && is_aligned) || tensor.numel() == 0) return &tensor;
  PTERON_ASSIGN_OR_RETURN(copy, slim::make_tensor(tensor.sizes(), {strides, tensor.dim()},
                                                  tensor.dtype(), tensor.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor));
  return copy.get();
}

Convolution problem_of(const aoti::ConvolutionCall& call) {
  Convolution conv;
  conv.dtype = type_of(call.input);
  conv.dims = static_cast<int>(call.dims);
  conv.transposed = call.transposed;
  conv.channels_last = call.channels_last;
  conv.relu = call.relu;
  if (const ExecutionResources* scope = ExecutionScope::current()) {
    conv.allow_tf32 = scope->allow_tf32;
  }
  conv.batch = call.input.size(0);
  conv.in_channels = call.input.size(1);
  conv.out_channels = call.out.size(1);
  conv.groups = call.groups;
  const size_t first = 3 - call.dims;
  for (size_t d = 0; d < call.dims; ++d) {
    conv.in_sizes[d] = call.input.size(2 + d);
    conv.out_sizes[d] = call.out.size(2 + d);
    conv.kernel[d] = call.weight.size(2 + d);
    conv.stride[d] = call.stride[first + d];
    conv.padding[d] = call.padding[first + d];
    conv.dilation[d] = call.dilation[first + d];
  }
  return conv;
}

}  // namespace

Error convolve(const Convolution& conv, const ConvolutionOperands& operands, int device,
               cudaStream_t stream, ConvolutionLibrary library) {
  if (conv.batch == 0 || conv.out_channels == 0) return Error::Ok;
  if (library != ConvolutionLibrary::kUnfold) {
    Error error = convolve_with_cudnn(conv, operands, device, stream);
    const bool can_do_without = error == Error::NotFound || error == Error::NotSupported;
    if (!can_do_without || library == ConvolutionLibrary::kCudnn) return error;
  }
  PTERON_RETURN_IF_ERROR(convolve_unfolded(conv, operands, device, stream));
  return finish_convolution(conv, operands, stream);
}

Error convolution(const aoti::ConvolutionCall& call) {
  const Convolution conv = problem_of(call);
  if (!is_gemm_type(conv.dtype)) return aoti::no_kernel_for(call.input);
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  TensorPtr input_copy, weight_copy, bias_copy, residual_copy;
  PTERON_ASSIGN_OR_RETURN(const SlimTensor* input,
                          packed(call.input, conv.channels_last, input_copy));
  PTERON_ASSIGN_OR_RETURN(const SlimTensor* weight,
                          packed(call.weight, conv.channels_last, weight_copy));
  ConvolutionOperands operands;
  operands.input = input->data();
  operands.weight = weight->data();
  operands.out = call.out.data();
  if (call.bias) {
    PTERON_ASSIGN_OR_RETURN(const SlimTensor* bias, packed(*call.bias, false, bias_copy));
    operands.bias = bias->data();
  }
  if (call.residual) {
    PTERON_ASSIGN_OR_RETURN(const SlimTensor* residual,
                            packed(*call.residual, conv.channels_last, residual_copy));
    operands.residual = residual->data();
  }
  return convolve(conv, operands, scope.device(), scope.stream());
}

}  // namespace pteron::cuda
