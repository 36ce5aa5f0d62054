#include "pteron/backends/cuda/runtime/kernels/sort_keys.cuh"

namespace pteron::cuda::internal {

template Error sort_keys<uint32_t>(const uint32_t*, uint32_t*, const uint32_t*, uint32_t*, int64_t,
                                   int64_t, int, void*, size_t*, cudaStream_t);

}  // namespace pteron::cuda::internal
