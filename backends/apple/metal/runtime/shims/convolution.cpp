#include "pteron/backends/aoti/ops/convolution/convolution.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// Batch, channels and three spatial dimensions; missing leading ones have size 1.
void spread_strides(const SlimTensor& tensor, int64_t* strides) {
  strides[0] = tensor.stride(0);
  strides[1] = tensor.stride(1);
  for (size_t d = 2; d < tensor.dim(); ++d) strides[5 - tensor.dim() + d] = tensor.stride(d);
}

}  // namespace

Error convolution(const aoti::ConvolutionCall& call) {
  if (!slim::is_floating_point(call.out.dtype())) return aoti::no_kernel_for(call.input);
  ConvolutionParams params{};
  params.in_channels = call.input.size(1) / call.groups;
  params.out_channels = call.out.size(1) / call.groups;
  for (size_t k = 0; k < 3; ++k) {
    params.in[k] = params.out[k] = params.kernel[k] = 1;
    params.stride[k] = call.stride[k];
    params.padding[k] = call.padding[k];
    params.dilation[k] = call.dilation[k];
  }
  for (size_t d = 0; d < call.dims; ++d) {
    const size_t k = 3 - call.dims + d;
    params.in[k] = call.input.size(2 + d);
    params.out[k] = call.out.size(2 + d);
    params.kernel[k] = call.weight.size(2 + d);
  }
  for (size_t k = 0; k < 3 - call.dims; ++k) {
    params.stride[k] = params.dilation[k] = 1;
    params.padding[k] = 0;
  }
  spread_strides(call.input, params.in_strides);
  spread_strides(call.weight, params.weight_strides);
  spread_strides(call.out, params.out_strides);
  params.has_bias = call.bias != nullptr;
  params.transposed = call.transposed;
  return launch(kConvolutionSource, {{"T", call.out.dtype()}}, "convolution",
                {memory(call.out), memory(call.input), memory(call.weight),
                 memory(call.bias ? *call.bias : call.weight), bytes(params)},
                {static_cast<uint64_t>(params.out[0] * params.out[1] * params.out[2]),
                 static_cast<uint64_t>(call.out.size(1)), static_cast<uint64_t>(call.out.size(0))});
}

}  // namespace pteron::metal
