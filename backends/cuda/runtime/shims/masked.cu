#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_scan.cuh>

#include "pteron/backends/aoti/ops/masked/masked.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

struct AsCount {
  __host__ __device__ int64_t operator()(bool holds) const { return holds ? 1 : 0; }
};

// The k-th element for which `mask` holds = source[k], if there is one.
template <typename Item>
__global__ void masked_kernel(Item* out, const bool* mask, const int64_t* positions, int64_t count,
                              const Item* source, int64_t source_count) {
  for_each_item(count, [&](int64_t i) {
    if (mask[i] && positions[i] < source_count) out[i] = source[positions[i]];
  });
}

}  // namespace

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  const int64_t count = call.out.numel();
  if (count == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(
      slim::StorageRef positions,
      allocate_scratch(static_cast<size_t>(count) * sizeof(int64_t), scope.device()));
  auto* const position = static_cast<int64_t*>(positions->data);
  const auto* const mask = call.mask.data_as<const bool>();
  const auto holds = thrust::make_transform_iterator(mask, AsCount{});
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceScan::ExclusiveSum(nullptr, nbytes, holds, position, count, scope.stream()),
      "sizing the scan of a mask");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes > 0 ? nbytes : 1, scope.device()));
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceScan::ExclusiveSum(scratch->data, nbytes, holds, position, count, scope.stream()),
      "scanning a mask");
  constexpr const char* kWhat = "writing where a mask holds";
  return with_item(call.out.item_size(), kWhat, [&](auto item) {
    using Item = decltype(item);
    return launch_items(count, scope.stream(), kWhat, masked_kernel<Item>, call.out.data_as<Item>(),
                        mask, position, count, call.source.data_as<const Item>(),
                        call.source.numel());
  });
}

}  // namespace pteron::cuda
