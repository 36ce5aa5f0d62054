#include "pteron/backends/aoti/ops/pooling/pooling.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error pool(const aoti::PoolingCall& call) {
  const aoti::PoolingWindows& windows = call.windows;
  PoolingParams params{};
  params.adaptive = windows.adaptive;
  params.channels = windows.channels;
  for (size_t d = 0; d < 3; ++d) {
    params.in[d] = windows.in[d];
    params.out[d] = windows.out[d];
    params.kernel[d] = windows.kernel[d];
    params.stride[d] = windows.stride[d];
    params.padding[d] = windows.padding[d];
    params.dilation[d] = windows.dilation[d];
  }
  std::copy(windows.in_strides, windows.in_strides + 5, params.in_strides);
  std::copy(windows.out_strides, windows.out_strides + 5, params.out_strides);
  params.count_padding = windows.count_padding;
  params.divisor = windows.divisor;
  const Threads grid = {static_cast<uint64_t>(params.out[0] * params.out[1] * params.out[2]),
                        static_cast<uint64_t>(windows.channels),
                        static_cast<uint64_t>(windows.batch)};
  const ElementMacro element = {"T", call.out.dtype()};
  if (!call.indices) {
    return launch(kPoolingSource, {element}, "average",
                  {memory(call.out), memory(call.self), bytes(params)}, grid);
  }
  return launch(kPoolingSource, {element}, "maximum",
                {memory(call.out), memory(call.self), bytes(params), memory(*call.indices)}, grid);
}

}  // namespace pteron::metal
