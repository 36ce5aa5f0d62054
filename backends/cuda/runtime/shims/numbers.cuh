// Elements of any real dtype as one C++ type, for kernels that need no instantiation per dtype;
// tensors as arguments of kernels. Used by several families.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

// Which load_as() and store_as() do not support.
inline bool is_float8(ScalarType dtype) {
  return dtype == ScalarType::Float8_e5m2 || dtype == ScalarType::Float8_e4m3fn;
}

template <typename T>
__device__ inline T load_as(const void* data, ScalarType dtype, int64_t i) {
  switch (dtype) {
    case ScalarType::Byte:
      return static_cast<T>(static_cast<const uint8_t*>(data)[i]);
    case ScalarType::Char:
      return static_cast<T>(static_cast<const int8_t*>(data)[i]);
    case ScalarType::Short:
      return static_cast<T>(static_cast<const int16_t*>(data)[i]);
    case ScalarType::Int:
      return static_cast<T>(static_cast<const int32_t*>(data)[i]);
    case ScalarType::Long:
      return static_cast<T>(static_cast<const int64_t*>(data)[i]);
    case ScalarType::Half:
      return static_cast<T>(__half2float(static_cast<const __half*>(data)[i]));
    case ScalarType::BFloat16:
      return static_cast<T>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]));
    case ScalarType::Float:
      return static_cast<T>(static_cast<const float*>(data)[i]);
    case ScalarType::Double:
      return static_cast<T>(static_cast<const double*>(data)[i]);
    case ScalarType::Bool:
      return static_cast<T>(static_cast<const bool*>(data)[i]);
    case ScalarType::UInt16:
      return static_cast<T>(static_cast<const uint16_t*>(data)[i]);
    case ScalarType::UInt32:
      return static_cast<T>(static_cast<const uint32_t*>(data)[i]);
    case ScalarType::UInt64:
      return static_cast<T>(static_cast<const uint64_t*>(data)[i]);
    default:
      return T{};
  }
}

template <typename T>
__device__ inline void store_as(void* data, ScalarType dtype, int64_t i, T value) {
  switch (dtype) {
    case ScalarType::Byte:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      break;
    case ScalarType::Char:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      break;
    case ScalarType::Short:
      static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      break;
    case ScalarType::Int:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    case ScalarType::Long:
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
      break;
    case ScalarType::Half:
      static_cast<__half*>(data)[i] = __float2half_rn(static_cast<float>(value));
      break;
    case ScalarType::BFloat16:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(static_cast<float>(value));
      break;
    case ScalarType::Float:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case ScalarType::Double:
      static_cast<double*>(data)[i] = static_cast<double>(value);
      break;
    case ScalarType::Bool:
      static_cast<bool*>(data)[i] = value != T{};
      break;
    case ScalarType::UInt16:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value);
      break;
    case ScalarType::UInt32:
      static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(value);
      break;
    case ScalarType::UInt64:
      static_cast<uint64_t*>(data)[i] = static_cast<uint64_t>(value);
      break;
    default:
      break;
  }
}

// The elements of a tensor as a kernel argument.
struct Numbers {
  void* data;
  ScalarType dtype;

  template <typename T>
  __device__ T load(int64_t i) const {
    return load_as<T>(data, dtype, i);
  }
  template <typename T>
  __device__ void store(int64_t i, T value) const {
    store_as(data, dtype, i, value);
  }
};

inline Numbers numbers_of(const SlimTensor& tensor) { return {tensor.data(), type_of(tensor)}; }

// The elements of a tensor of int32 or int64.
struct Indices {
  void* data;
  bool wide;  // int64

  __device__ int64_t operator[](int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i]
                : static_cast<int64_t>(static_cast<const int32_t*>(data)[i]);
  }
  __device__ void store(int64_t i, int64_t value) const {
    if (wide) {
      static_cast<int64_t*>(data)[i] = value;
    } else {
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
    }
  }
};

inline Indices indices_of(const SlimTensor& tensor) {
  return {tensor.data(), tensor.dtype() == DType::Long};
}

}  // namespace pteron::cuda
