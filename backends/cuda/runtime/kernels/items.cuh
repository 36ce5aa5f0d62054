// Elements of any dtype as byte blocks, and a grid-stride loop, for kernels that only move data.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

inline constexpr int kItemThreads = 256;

inline unsigned item_blocks(int64_t count) {
  const int64_t needed = (count + kItemThreads - 1) / kItemThreads;
  return static_cast<unsigned>(needed < 65536 ? needed : 65536);
}

// Grid-stride loop: calls body(i) for this thread's share of `count` elements.
template <typename Body>
__device__ void for_each_item(int64_t count, const Body& body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kItemThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kItemThreads + threadIdx.x; i < count;
       i += step) {
    body(i);
  }
}

inline Error launched(const char* what) {
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), what);
  return Error::Ok;
}

// Calls body(Item{}), which launches, with a type of that many bytes.
template <typename Body>
Error with_item(size_t nbytes, const char* what, const Body& body) {
  switch (nbytes) {
    case 1:
      return body(uint8_t{}), launched(what);
    case 2:
      return body(uint16_t{}), launched(what);
    case 4:
      return body(uint32_t{}), launched(what);
    case 8:
      return body(uint64_t{}), launched(what);
    case 16:
      return body(uint4{}), launched(what);
    default:
      return make_error(Error::InvalidArgument,
                        "%s: found items of %zu bytes, expected 1, 2, 4, 8 or 16", what, nbytes);
  }
}

}  // namespace pteron::cuda
