#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_scan.cuh>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/cuda/runtime/kernels/items.cuh"
#include "pteron/backends/cuda/runtime/kernels/masked.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

struct AsCount {
  __host__ __device__ int64_t operator()(bool holds) const { return holds ? 1 : 0; }
};

template <typename Item>
__global__ void masked_kernel(Item* out, const bool* mask, const int64_t* positions, int64_t count,
                              const Item* source, int64_t source_count) {
  for_each_item(count, [&](int64_t i) {
    if (mask[i] && positions[i] < source_count) out[i] = source[positions[i]];
  });
}

}  // namespace

Error masked_scatter(size_t item_nbytes, void* out, const bool* mask, int64_t count,
                     const void* source, int64_t source_count, int device, cudaStream_t stream) {
  if (count == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef positions,
                          allocate_scratch(static_cast<size_t>(count) * sizeof(int64_t), device));
  auto* const position = static_cast<int64_t*>(positions->data);
  const auto holds = thrust::make_transform_iterator(mask, AsCount{});
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceScan::ExclusiveSum(nullptr, nbytes, holds, position, count, stream),
      "sizing the scan of a mask");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes > 0 ? nbytes : 1, device));
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceScan::ExclusiveSum(scratch->data, nbytes, holds, position, count, stream),
      "scanning a mask");
  return with_item(item_nbytes, "writing where a mask holds", [&](auto item) {
    using Item = decltype(item);
    masked_kernel<Item><<<item_blocks(count), kItemThreads, 0, stream>>>(
        static_cast<Item*>(out), mask, position, count, static_cast<const Item*>(source),
        source_count);
  });
}

}  // namespace pteron::cuda
