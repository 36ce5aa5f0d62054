#include "pteron/backends/aoti/ops/detection/detection.h"

#include <limits>
#include <type_traits>

#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

using aoti::RegionCall;
using aoti::RegionPooling;

template <typename T>
void suppress(const aoti::NmsCall& call) {
  const T* const boxes = call.boxes.data_as<const T>();
  bool* const kept = call.kept.data_as<bool>();
  const int64_t n = call.kept.numel();
  std::fill(kept, kept + n, true);
  for (int64_t i = 0; i < n; ++i) {
    if (!kept[i]) continue;
    parallel_for(n - i - 1, 8192, [&](int64_t begin, int64_t end) {
      for (int64_t j = i + 1 + begin; j < i + 1 + end; ++j) {
        kept[j] = kept[j] && !aoti::overlaps(boxes + 4 * i, boxes + 4 * j, call.iou_threshold);
      }
    });
  }
}

// Bin (h, w) of a region in all channels, which are `step` apart; `out` holds them `bins` apart.
template <typename T, typename Step>
void pool_bin(const RegionPooling& p, const T* image, const T* roi, int64_t h, int64_t w, Step step,
              int64_t channels, int64_t bins, T* row, T* out, int32_t* indices) {
  const bool is_maximum = !p.samples && !p.position_sensitive;
  const T* const first = image + aoti::input_channel(p, 0, h, w) * p.channel_stride;
  std::fill(row, row + channels, is_maximum ? std::numeric_limits<T>::lowest() : T(0));
  const T count = aoti::visit_bin<T>(p, roi, h, w, [&](int64_t offset, T weight, int64_t at) {
    const T* const elements = first + offset;
    if (!is_maximum) {
      for (int64_t c = 0; c < channels; ++c) row[c] += weight * elements[c * step];
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      if (!(elements[c * step] > row[c])) continue;
      row[c] = elements[c * step];
      indices[c * bins] = static_cast<int32_t>(at);
    }
  });
  const bool is_empty = !p.samples && !(count > 0);
  for (int64_t c = 0; c < channels; ++c) {
    out[c * bins] = is_empty ? T(0) : is_maximum ? row[c] : row[c] / count;
    if (p.position_sensitive) {
      indices[c * bins] = static_cast<int32_t>(aoti::input_channel(p, c, h, w));
    }
  }
}

template <typename T>
Error pool(const RegionCall& call) {
  // Channels last, so that elements at one place are adjacent.
  TensorPtr input = slim::make_alias(call.input);
  if (input->stride(1) != 1) {
    PTERON_ASSIGN_OR_RETURN(
        input, aoti::make_channels_last(call.input.sizes(), call.input.dtype(), Device{}));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*input, call.input));
  }
  const RegionPooling p = aoti::pooling_of(call.pooling, *input);
  const SlimTensor& out = call.out;
  const int64_t channels = out.size(1), bins = p.bins[0] * p.bins[1];
  const T* const rois = call.rois.data_as<const T>();
  for (int64_t k = 0; k < out.size(0); ++k) {
    PTERON_CHECK_OR_RETURN(aoti::image_of(p, rois + 5 * k) >= 0, Error::InvalidArgument,
                           "rois: found image %g of region %lld, expected one of %lld images",
                           static_cast<double>(rois[5 * k]), static_cast<long long>(k),
                           static_cast<long long>(p.images));
  }
  if (call.indices) std::fill_n(call.indices->data_as<int32_t>(), out.numel(), -1);
  const auto each = [&](auto step) {
    parallel_for(out.size(0) * p.bins[0], 4096 / (channels * p.bins[1]) + 1,
                 [&](int64_t begin, int64_t end) {
                   const Scratch<T> row(channels);
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t k = i / p.bins[0], h = i % p.bins[0];
                     const T* const roi = rois + 5 * k;
                     const T* const image =
                         input->data_as<const T>() + aoti::image_of(p, roi) * p.image_stride;
                     for (int64_t w = 0; w < p.bins[1]; ++w) {
                       const int64_t at = k * channels * bins + h * p.bins[1] + w;
                       pool_bin<T>(p, image, roi, h, w, step, channels, bins, row.data(),
                                   out.data_as<T>() + at,
                                   call.indices ? call.indices->data_as<int32_t>() + at : nullptr);
                     }
                   }
                 });
  };
  if (p.position_sensitive) {
    each(bins);
  } else {
    each(std::integral_constant<int64_t, 1>());
  }
  return Error::Ok;
}

}  // namespace

Error nms_mask(const aoti::NmsCall& call) {
  call.boxes.dtype() == DType::Float ? suppress<float>(call) : suppress<double>(call);
  return Error::Ok;
}

Error pool_regions(const RegionCall& call) {
  return call.out.dtype() == DType::Float ? pool<float>(call) : pool<double>(call);
}

}  // namespace pteron::cpu
