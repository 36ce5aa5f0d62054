// Defines internal::sort_keys for one key type; each is compiled in its own file.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/sort.h"

namespace pteron::cuda::internal {

struct RowStart {
  int64_t n;
  __host__ __device__ int64_t operator()(int64_t row) const { return row * n; }
};

template <typename Key>
Error sort_keys(const Key* keys_in, Key* keys_out, const uint32_t* indices_in,
                uint32_t* indices_out, int64_t rows, int64_t n, int key_bits, void* scratch,
                size_t* scratch_nbytes, cudaStream_t stream) {
  if (rows == 1) {
    PTERON_CUDA_RETURN_IF_ERROR(
        cub::DeviceRadixSort::SortPairs(scratch, *scratch_nbytes, keys_in, keys_out, indices_in,
                                        indices_out, n, 0, key_bits, stream),
        "sorting");
    return Error::Ok;
  }
  const auto starts =
      thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), RowStart{n});
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceSegmentedRadixSort::SortPairs(scratch, *scratch_nbytes, keys_in, keys_out,
                                               indices_in, indices_out, rows * n, rows, starts,
                                               starts + 1, 0, key_bits, stream),
      "sorting rows");
  return Error::Ok;
}

}  // namespace pteron::cuda::internal
