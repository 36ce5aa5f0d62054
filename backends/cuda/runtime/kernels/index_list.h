// A run of int32 or int64 numbers on the device, as indices come. Internal to the kernels and the
// shims that call them.
#pragma once

#include <cstdint>

namespace pteron::cuda {

struct IndexList {
  const void* data = nullptr;
  bool wide = true;  // int64, else int32

#ifdef __CUDACC__
  __device__ int64_t operator[](int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i]
                : static_cast<int64_t>(static_cast<const int32_t*>(data)[i]);
  }
#endif
};

}  // namespace pteron::cuda
