#include <algorithm>
#include <limits>

#include "pteron/backends/aoti/ops/detection/detection.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;
// Boxes that one block compares with each other.
constexpr int kTile = 512;

int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + kThreads - 1) / kThreads, 65536));
}

// Boxes [first, first + kTile) by those of them that are kept, in order; one block.
template <typename T>
__global__ void suppress_within(const T* boxes, bool* kept, int64_t first, int64_t n,
                                double threshold) {
  __shared__ T tile[kTile][4];
  __shared__ bool stays[kTile];
  const int i = static_cast<int>(threadIdx.x);
  const auto count = static_cast<int>(n - first < kTile ? n - first : kTile);
  if (i < count) {
    for (int d = 0; d < 4; ++d) tile[i][d] = boxes[4 * (first + i) + d];
    stays[i] = kept[first + i];
  }
  for (int j = 0; j < count; ++j) {
    __syncthreads();
    if (stays[j] && i > j && i < count && stays[i] && aoti::overlaps(tile[j], tile[i], threshold)) {
      stays[i] = false;
    }
  }
  if (i < count) kept[first + i] = stays[i];
}

// The boxes after a tile by those of the tile that are kept.
template <typename T>
__global__ void suppress_after(const T* boxes, bool* kept, int64_t first, int64_t n,
                               double threshold) {
  __shared__ T tile[kTile][4];
  __shared__ bool stays[kTile];
  for (int j = static_cast<int>(threadIdx.x); j < kTile; j += kThreads) {
    for (int d = 0; d < 4; ++d) tile[j][d] = boxes[4 * (first + j) + d];
    stays[j] = kept[first + j];
  }
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = first + kTile + blockIdx.x * kThreads + threadIdx.x; i < n; i += step) {
    if (!kept[i]) continue;
    T box[4];
    for (int d = 0; d < 4; ++d) box[d] = boxes[4 * i + d];
    for (int j = 0; j < kTile; ++j) {
      if (stays[j] && aoti::overlaps(tile[j], box, threshold)) {
        kept[i] = false;
        break;
      }
    }
  }
}

template <typename T>
Error suppress(const aoti::NmsCall& call, cudaStream_t stream) {
  const T* const boxes = call.boxes.data_as<const T>();
  bool* const kept = call.kept.data_as<bool>();
  const int64_t n = call.kept.numel();
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(kept, 1, static_cast<size_t>(n), stream),
                              "keeping all boxes");
  for (int64_t first = 0; first < n; first += kTile) {
    suppress_within<T><<<1, kTile, 0, stream>>>(boxes, kept, first, n, call.iou_threshold);
    if (first + kTile < n) {
      suppress_after<T><<<blocks_for(n - first - kTile), kThreads, 0, stream>>>(
          boxes, kept, first, n, call.iou_threshold);
    }
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "non-maximum suppression");
  return Error::Ok;
}

template <typename T>
__global__ void pool_kernel(aoti::RegionPooling p, const T* input, const T* rois, T* out,
                            int32_t* indices, int64_t channels, int64_t count, T lowest) {
  const bool is_maximum = !p.samples && !p.position_sensitive;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x; i < count;
       i += step) {
    const int64_t w = i % p.bins[1], h = i / p.bins[1] % p.bins[0];
    const int64_t c = i / (p.bins[0] * p.bins[1]) % channels;
    const T* const roi = rois + i / (p.bins[0] * p.bins[1] * channels) * 5;
    const int64_t image = aoti::image_of(p, roi);
    const int64_t channel = aoti::input_channel(p, c, h, w);
    const T* const elements = input + image * p.image_stride + channel * p.channel_stride;
    T sum = is_maximum ? lowest : T(0);
    int64_t index = p.position_sensitive ? channel : -1;
    T divisor = 0;
    // A region of no image is 0.
    if (image >= 0) {
      divisor = aoti::visit_bin<T>(p, roi, h, w, [&](int64_t offset, T weight, int64_t at) {
        const T value = elements[offset];
        if (!is_maximum) {
          sum += weight * value;
        } else if (value > sum) {
          sum = value;
          index = at;
        }
      });
    }
    const bool is_empty = image < 0 || (!p.samples && !(divisor > 0));
    out[i] = is_empty ? T(0) : is_maximum ? sum : sum / divisor;
    if (indices) indices[i] = static_cast<int32_t>(index);
  }
}

template <typename T>
void pool(const aoti::RegionCall& call, cudaStream_t stream) {
  const int64_t count = call.out.numel();
  pool_kernel<T><<<blocks_for(count), kThreads, 0, stream>>>(
      aoti::pooling_of(call.pooling, call.input), call.input.data_as<const T>(),
      call.rois.data_as<const T>(), call.out.data_as<T>(),
      call.indices ? call.indices->data_as<int32_t>() : nullptr, call.out.size(1), count,
      std::numeric_limits<T>::lowest());
}

}  // namespace

Error nms_mask(const aoti::NmsCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.kept));
  return call.boxes.dtype() == DType::Float ? suppress<float>(call, scope.stream())
                                            : suppress<double>(call, scope.stream());
}

Error pool_regions(const aoti::RegionCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  call.out.dtype() == DType::Float ? pool<float>(call, scope.stream())
                                   : pool<double>(call, scope.stream());
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "pooling regions");
  return Error::Ok;
}

}  // namespace pteron::cuda
