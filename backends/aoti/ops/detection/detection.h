// Non-maximum suppression, and pooling of regions of interest.
#pragma once

#include "pteron/backends/aoti/ops/detection/regions.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// kept[i] = whether no kept box before box i overlaps it by more than the threshold.
struct NmsCall {
  const slim::SlimTensor& boxes;  // [n, 4], row-major, float32 or float64
  double iou_threshold;
  const slim::SlimTensor& kept;  // [n], bool
};

// out[k, c, ph, pw] = what bin (ph, pw) of region k has of channel c.
struct RegionCall {
  RegionPooling pooling;
  const slim::SlimTensor& input;    // [images, channels, height, width], any strides, not empty
  const slim::SlimTensor& rois;     // [k, 5], row-major: image, x1, y1, x2, y2; dtype of input
  const slim::SlimTensor& out;      // row-major, not empty, dtype of input: float32 or float64
  const slim::SlimTensor* indices;  // int32, like out: of the maximum, or of the channel; or null
};

// `pooling` with the sizes and strides of `input`.
inline RegionPooling pooling_of(RegionPooling pooling, const slim::SlimTensor& input) {
  pooling.images = input.size(0);
  pooling.channels = input.size(1);
  pooling.height = input.size(2);
  pooling.width = input.size(3);
  pooling.image_stride = input.stride(0);
  pooling.channel_stride = input.stride(1);
  pooling.strides[0] = input.stride(2);
  pooling.strides[1] = input.stride(3);
  return pooling;
}

}  // namespace pteron::aoti
