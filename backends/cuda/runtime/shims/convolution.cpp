#include "pteron/backends/aoti/ops/convolution.h"

#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/kernels/convolution.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

// `tensor` without gaps in the wanted order: an alias where it lies so, else a copy.
Result<TensorPtr> packed(const SlimTensor& tensor, bool channels_last) {
  if (!channels_last) return slim::contiguous_tensor(tensor);
  int64_t strides[slim::kMaxDims];
  slim::channels_last_strides(tensor.sizes(), strides);
  bool is_packed = true;
  for (size_t d = 0; d < tensor.dim(); ++d) {
    is_packed = is_packed && (tensor.size(d) == 1 || tensor.stride(d) == strides[d]);
  }
  if (is_packed || tensor.numel() == 0) return slim::make_alias(tensor);
  PTERON_ASSIGN_OR_RETURN(
      TensorPtr copy, aoti::make_channels_last(tensor.sizes(), tensor.dtype(), tensor.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor));
  return copy;
}

Convolution problem_of(const aoti::ConvolutionCall& call) {
  Convolution conv;
  conv.dtype = type_of(call.input);
  conv.dims = static_cast<int>(call.dims);
  conv.transposed = call.transposed;
  conv.channels_last = call.channels_last && call.dims == 2;
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

Error convolution(const aoti::ConvolutionCall& call) {
  const Convolution conv = problem_of(call);
  if (!is_gemm_type(conv.dtype)) return aoti::no_kernel_for(call.input);
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr input, packed(call.input, conv.channels_last));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr weight, packed(call.weight, conv.channels_last));
  TensorPtr aside;
  if (call.channels_last != conv.channels_last) {
    PTERON_ASSIGN_OR_RETURN(
        aside, aoti::make_row_major(call.out.sizes(), call.out.dtype(), call.out.device()));
  }
  const SlimTensor& out = aside ? *aside : call.out;
  PTERON_RETURN_IF_ERROR(
      convolve(conv, input->data(), weight->data(), out.data(), scope.device(), scope.stream()));
  if (call.bias) {
    PTERON_RETURN_IF_ERROR(add_bias(conv, call.bias->data(), out.data(), scope.stream()));
  }
  return aside ? slim::copy_tensor(call.out, out) : Error(Error::Ok);
}

}  // namespace pteron::cuda
