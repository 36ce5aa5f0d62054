// The windows of a pooling, in numbers: what kernels of any device need to know.
#pragma once

#include <cstdint>

namespace pteron::aoti {

// Three numbers are for depth, height and width; of those that a tensor lacks the size is 1.
struct PoolingWindows {
  bool adaptive = false;  // windows are nearly equal parts of the input; then in and out suffice
  int64_t batch = 1, channels = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  // Batch, channels, depth, height, width.
  int64_t in_strides[5] = {0, 0, 0, 0, 0}, out_strides[5] = {0, 0, 0, 0, 0};
  // Of averages. Divisor 0: the number of positions of the window, those in the padding counted or
  // not.
  bool count_padding = true;
  int64_t divisor = 0;
};

}  // namespace pteron::aoti
