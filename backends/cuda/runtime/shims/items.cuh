// Kernels with a thread per element: their loop and launch, and elements of any dtype as byte
// blocks. Used by several families.
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

// The first i in [0, n) for which holds(i), else n; it must hold for all after that.
template <typename Predicate>
__device__ int64_t first_that(int64_t n, const Predicate& holds) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

inline Error launched(const char* what) {
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), what);
  return Error::Ok;
}

// Launches a kernel that is a for_each_item() of `count` elements; does nothing without any.
// `what` is for messages.
template <typename... Parameters, typename... Arguments>
Error launch_items(int64_t count, cudaStream_t stream, const char* what,
                   void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (count == 0) return Error::Ok;
  kernel<<<item_blocks(count), kItemThreads, 0, stream>>>(arguments...);
  return launched(what);
}

// body(Item{}) with a type of that many bytes.
template <typename Body>
Error with_item(size_t nbytes, const char* what, const Body& body) {
  switch (nbytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    case 16:
      return body(uint4{});
    default:
      return make_error(Error::InvalidArgument,
                        "%s: found items of %zu bytes, expected 1, 2, 4, 8 or 16", what, nbytes);
  }
}

}  // namespace pteron::cuda
