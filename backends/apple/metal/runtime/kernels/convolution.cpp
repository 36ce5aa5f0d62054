#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

// A thread computes one output element: x is the position, y the channel, z the image.
const char kConvolutionSource[] = R"MTL(
struct ConvolutionParams {
  long in_channels, out_channels;
  long in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  long in_strides[5], weight_strides[5], out_strides[5];
  long has_bias, transposed;
};

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

}  // namespace pteron::metal
