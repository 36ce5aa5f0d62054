#include "pteron/backends/aoti/ops/detection/detection.h"

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

namespace {

Error check_floats(const SlimTensor& tensor, const char* name) {
  PTERON_CHECK_OR_RETURN(tensor.dtype() == DType::Float || tensor.dtype() == DType::Double,
                         Error::InvalidType, "found %s %s, expected float32 or float64", name,
                         tensor.describe().c_str());
  return Error::Ok;
}

// Samples of a bin along a dimension. More would run for hours where a region has no size.
constexpr int64_t kMaxSamplingRatio = 256;

Error pool(const Kernels& kernels, RegionPooling pooling, const SlimTensor& input,
           const SlimTensor& rois, TensorPtr& out, TensorPtr* indices) {
  PTERON_RETURN_IF_ERROR(check_floats(input, "input"));
  PTERON_CHECK_OR_RETURN(
      input.dim() == 4 && rois.dim() == 2 && rois.size(1) == 5 && rois.dtype() == input.dtype(),
      Error::InvalidArgument,
      "found input %s, rois %s, expected [images, channels, height, width] and [regions, 5] of one "
      "dtype",
      input.describe().c_str(), rois.describe().c_str());
  int64_t bins = 0;
  PTERON_CHECK_OR_RETURN(pooling.bins[0] > 0 && pooling.bins[1] > 0 &&
                             !__builtin_mul_overflow(pooling.bins[0], pooling.bins[1], &bins),
                         Error::InvalidArgument,
                         "found %lld x %lld bins, expected 1 or more, and that they can be counted",
                         static_cast<long long>(pooling.bins[0]),
                         static_cast<long long>(pooling.bins[1]));
  PTERON_CHECK_OR_RETURN(pooling.sampling_ratio <= kMaxSamplingRatio, Error::InvalidArgument,
                         "found sampling_ratio %lld, expected at most %lld",
                         static_cast<long long>(pooling.sampling_ratio),
                         static_cast<long long>(kMaxSamplingRatio));
  PTERON_CHECK_OR_RETURN(!pooling.position_sensitive || input.size(1) % bins == 0,
                         Error::InvalidArgument,
                         "found input %s, expected a multiple of %lld channels, one for each bin",
                         input.describe().c_str(), static_cast<long long>(bins));
  const int64_t channels = pooling.position_sensitive ? input.size(1) / bins : input.size(1);
  const int64_t sizes[] = {rois.size(0), channels, pooling.bins[0], pooling.bins[1]};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, input.dtype(), input.device()));
  if (indices) {
    PTERON_ASSIGN_OR_RETURN(*indices, make_row_major(sizes, DType::Int, input.device()));
  }
  if (out->numel() == 0) return Error::Ok;
  PTERON_CHECK_OR_RETURN(input.numel() > 0, Error::InvalidArgument,
                         "found input %s, expected elements", input.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr regions, slim::contiguous_tensor(rois));
  return kernels.pool_regions({pooling, input, *regions, *out, indices ? indices->get() : nullptr});
}

}  // namespace

Error nms_mask(const Kernels& kernels, const SlimTensor& boxes, double iou_threshold,
               TensorPtr& kept) {
  PTERON_RETURN_IF_ERROR(check_floats(boxes, "boxes"));
  PTERON_CHECK_OR_RETURN(boxes.dim() == 2 && boxes.size(1) == 4, Error::InvalidArgument,
                         "found boxes %s, expected [boxes, 4]", boxes.describe().c_str());
  const int64_t n = boxes.size(0);
  PTERON_ASSIGN_OR_RETURN(kept, make_row_major({&n, 1}, DType::Bool, boxes.device()));
  if (n == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr rows, slim::contiguous_tensor(boxes));
  return kernels.nms_mask({*rows, iou_threshold, *kept});
}

Error roi_align(const Kernels& kernels, const SlimTensor& input, const SlimTensor& rois,
                double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                int64_t sampling_ratio, bool aligned, TensorPtr& out) {
  return pool(kernels,
              {true, false, aligned, sampling_ratio, spatial_scale, {pooled_height, pooled_width}},
              input, rois, out, nullptr);
}

Error ps_roi_align(const Kernels& kernels, const SlimTensor& input, const SlimTensor& rois,
                   double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                   int64_t sampling_ratio, TensorPtr& out, TensorPtr& channels) {
  return pool(kernels,
              {true, true, true, sampling_ratio, spatial_scale, {pooled_height, pooled_width}},
              input, rois, out, &channels);
}

Error roi_pool(const Kernels& kernels, const SlimTensor& input, const SlimTensor& rois,
               double spatial_scale, int64_t pooled_height, int64_t pooled_width, TensorPtr& out,
               TensorPtr& argmax) {
  return pool(kernels, {false, false, false, 0, spatial_scale, {pooled_height, pooled_width}},
              input, rois, out, &argmax);
}

Error ps_roi_pool(const Kernels& kernels, const SlimTensor& input, const SlimTensor& rois,
                  double spatial_scale, int64_t pooled_height, int64_t pooled_width, TensorPtr& out,
                  TensorPtr& channels) {
  return pool(kernels, {false, true, false, 0, spatial_scale, {pooled_height, pooled_width}}, input,
              rois, out, &channels);
}

}  // namespace pteron::aoti::ops
