#include "pteron/backends/aoti/ops/convolution/convolution.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// Channels of a group; depth, height, width.
#define PTERON_CONVOLUTION_PARAMS                                         \
  struct ConvolutionParams {                                              \
    int64_t in_channels, out_channels;                                    \
    int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3]; \
    int64_t in_strides[5], weight_strides[5], out_strides[5];             \
    int64_t has_bias, transposed;                                         \
  };
PTERON_CONVOLUTION_PARAMS

// A thread computes one output element: x is the position, y the channel, z the image.
const char kSource[] = PTERON_TEXT(PTERON_CONVOLUTION_PARAMS) R"MTL(
// The input position that kernel position `k` reads for output position `o`; -1: none.
inline long read_at(constant ConvolutionParams& p, int d, long o, long k) {
  if (!p.transposed) {
    const long at = o * p.stride[d] + k * p.dilation[d] - p.padding[d];
    return at < p.in[d] ? at : -1;
  }
  const long at = o + p.padding[d] - k * p.dilation[d];
  return at >= 0 && at % p.stride[d] == 0 && at / p.stride[d] < p.in[d] ? at / p.stride[d] : -1;
}

kernel void convolution(device T* out, device const T* in, device const T* weight,
                        device const T* bias, constant ConvolutionParams& p,
                        uint3 position [[thread_position_in_grid]]) {
  const long channel = position.y, group = channel / p.out_channels;
  const long w = position.x % p.out[2], h = position.x / p.out[2] % p.out[1],
             d = position.x / p.out[2] / p.out[1];
  const long first = group * p.in_channels;
  device const T* image = in + position.z * p.in_strides[0] + first * p.in_strides[1];
  device const T* numbers = p.transposed
      ? weight + first * p.weight_strides[0] + channel % p.out_channels * p.weight_strides[1]
      : weight + channel * p.weight_strides[0];
  const long weight_step = p.weight_strides[p.transposed ? 0 : 1];
  float sum = p.has_bias ? float(bias[channel]) : 0.0f;
  for (long z = 0; z < p.window[0]; ++z) {
    const long at_z = read_at(p, 0, d, z);
    if (at_z < 0) continue;
    for (long y = 0; y < p.window[1]; ++y) {
      const long at_y = read_at(p, 1, h, y);
      if (at_y < 0) continue;
      for (long x = 0; x < p.window[2]; ++x) {
        const long at_x = read_at(p, 2, w, x);
        if (at_x < 0) continue;
        device const T* from =
            image + at_z * p.in_strides[2] + at_y * p.in_strides[3] + at_x * p.in_strides[4];
        device const T* by = numbers + z * p.weight_strides[2] + y * p.weight_strides[3] +
                             x * p.weight_strides[4];
        for (long c = 0; c < p.in_channels; ++c) {
          sum += float(from[c * p.in_strides[1]]) * float(by[c * weight_step]);
        }
      }
    }
  }
  out[position.z * p.out_strides[0] + channel * p.out_strides[1] + d * p.out_strides[2] +
      h * p.out_strides[3] + w * p.out_strides[4]] = T(sum);
}
)MTL";

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
    params.in[k] = params.out[k] = params.window[k] = 1;
    params.stride[k] = call.stride[k];
    params.padding[k] = call.padding[k];
    params.dilation[k] = call.dilation[k];
  }
  for (size_t d = 0; d < call.dims; ++d) {
    const size_t k = 3 - call.dims + d;
    params.in[k] = call.input.size(2 + d);
    params.out[k] = call.out.size(2 + d);
    params.window[k] = call.weight.size(2 + d);
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
  return launch(kSource, {{"T", call.out.dtype()}}, "convolution",
                {memory(call.out), memory(call.input), memory(call.weight),
                 memory(call.bias ? *call.bias : call.weight), bytes(params)},
                {static_cast<uint64_t>(params.out[0] * params.out[1] * params.out[2]),
                 static_cast<uint64_t>(call.out.size(1)), static_cast<uint64_t>(call.out.size(0))});
}

}  // namespace pteron::metal
