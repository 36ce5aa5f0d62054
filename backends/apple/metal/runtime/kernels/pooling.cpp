#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"

namespace pteron::metal {

const char kPoolingSource[] = R"MTL(
struct PoolingParams {
  long adaptive, channels;
  long in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  long in_strides[5], out_strides[5];
  long count_padding, divisor;
};

// The part of the input that one position of the result looks at.
struct Window {
  long begin[3], end[3], step[3];
  long padded;  // positions, those in the padding included
};

inline Window window_of(constant PoolingParams& p, uint position) {
  const long at[3] = {position / p.out[2] / p.out[1], position / p.out[2] % p.out[1],
                      position % p.out[2]};
  Window w;
  w.padded = 1;
  for (int d = 0; d < 3; ++d) {
    if (p.adaptive) {
      w.begin[d] = at[d] * p.in[d] / p.out[d];
      w.end[d] = ((at[d] + 1) * p.in[d] + p.out[d] - 1) / p.out[d];
      w.step[d] = 1;
      w.padded *= w.end[d] - w.begin[d];
      continue;
    }
    long begin = at[d] * p.stride[d] - p.padding[d];
    const long end = begin + (p.window[d] - 1) * p.dilation[d] + 1;
    w.padded *= min(end, p.in[d] + p.padding[d]) - begin;
    if (begin < 0) begin += (-begin + p.dilation[d] - 1) / p.dilation[d] * p.dilation[d];
    w.begin[d] = begin;
    w.end[d] = min(end, p.in[d]);
    w.step[d] = p.dilation[d];
  }
  return w;
}

inline long plane_of(constant long* strides, uint3 position) {
  return long(position.z) * strides[0] + long(position.y) * strides[1];
}

inline long out_of(constant PoolingParams& p, uint3 position) {
  return plane_of(p.out_strides, position) +
         position.x / p.out[2] / p.out[1] * p.out_strides[2] +
         position.x / p.out[2] % p.out[1] * p.out_strides[3] +
         position.x % p.out[2] * p.out_strides[4];
}

kernel void average(device T* out, device const T* in, constant PoolingParams& p,
                    uint3 position [[thread_position_in_grid]]) {
  const Window w = window_of(p, position.x);
  device const T* plane = in + plane_of(p.in_strides, position);
  T_SUM sum = 0;
  long inside = 0;
  for (long z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (long y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      for (long x = w.begin[2]; x < w.end[2]; x += w.step[2]) {
        sum += T_SUM(plane[z * p.in_strides[2] + y * p.in_strides[3] + x * p.in_strides[4]]);
        ++inside;
      }
    }
  }
  const long count = p.divisor != 0 ? p.divisor : p.count_padding ? w.padded : inside;
  out[out_of(p, position)] = T(inside == 0 ? T_SUM(0) : sum / T_SUM(count));
}

kernel void maximum(device T* out, device const T* in, constant PoolingParams& p,
                    device long* indices, uint3 position [[thread_position_in_grid]]) {
  const Window w = window_of(p, position.x);
  device const T* plane = in + plane_of(p.in_strides, position);
  T held = T(0);
  long best = (w.begin[0] * p.in[1] + w.begin[1]) * p.in[2] + w.begin[2];
  bool any = false;
  for (long z = w.begin[0]; z < w.end[0]; z += w.step[0]) {
    for (long y = w.begin[1]; y < w.end[1]; y += w.step[1]) {
      for (long x = w.begin[2]; x < w.end[2]; x += w.step[2]) {
        const T found = plane[z * p.in_strides[2] + y * p.in_strides[3] + x * p.in_strides[4]];
        if (any && !(found > held) && found == found) continue;
        any = true;
        held = found;
        best = (z * p.in[1] + y) * p.in[2] + x;
      }
    }
  }
  out[out_of(p, position)] = held;
  indices[out_of(p, position)] = best;
}
)MTL";

}  // namespace pteron::metal
