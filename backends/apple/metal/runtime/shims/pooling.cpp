#include "pteron/backends/aoti/ops/pooling/pooling.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

const char kSource[] =
#include "pteron/backends/aoti/ops/pooling/pooling_windows.h.text"
    R"MTL(
inline PoolingWindow window_of(constant PoolingWindows& p, uint position) {
  return window_at(p, position / p.out[2] / p.out[1], position / p.out[2] % p.out[1],
                   position % p.out[2]);
}

inline long plane_of(constant long* strides, uint3 position) {
  return long(position.z) * strides[0] + long(position.y) * strides[1];
}

inline long out_of(constant PoolingWindows& p, uint3 position) {
  return plane_of(p.out_strides, position) +
         position.x / p.out[2] / p.out[1] * p.out_strides[2] +
         position.x / p.out[2] % p.out[1] * p.out_strides[3] +
         position.x % p.out[2] * p.out_strides[4];
}

kernel void average(device T* out, device const T* in, constant PoolingWindows& p,
                    uint3 position [[thread_position_in_grid]]) {
  device const T* plane = in + plane_of(p.in_strides, position);
  out[out_of(p, position)] = T(average_in<T_SUM>(p, window_of(p, position.x), plane));
}

kernel void maximum(device T* out, device const T* in, constant PoolingWindows& p,
                    device long* indices, uint3 position [[thread_position_in_grid]]) {
  const PoolingWindow w = window_of(p, position.x);
  device const T* plane = in + plane_of(p.in_strides, position);
  bool is_empty = false;
  long first = 0, index = 0;
  for (int d = 0; d < 3; ++d) {
    is_empty |= w.begin[d] >= w.end[d];
    first += w.begin[d] * p.in_strides[d + 2];
  }
  const T held = maximum_in(p, w, plane, is_empty ? T(0) : plane[first], index);
  out[out_of(p, position)] = held;
  indices[out_of(p, position)] = index;
}
)MTL";

}  // namespace

Error pool(const aoti::PoolingCall& call) {
  const aoti::PoolingWindows& p = call.windows;
  const Threads grid = {static_cast<uint64_t>(p.out[0] * p.out[1] * p.out[2]),
                        static_cast<uint64_t>(p.channels), static_cast<uint64_t>(p.batch)};
  const ElementMacro element = {"T", call.out.dtype()};
  if (!call.indices) {
    return launch(kSource, {element}, "average", {memory(call.out), memory(call.self), bytes(p)},
                  grid);
  }
  return launch(kSource, {element}, "maximum",
                {memory(call.out), memory(call.self), bytes(p), memory(*call.indices)}, grid);
}

}  // namespace pteron::metal
