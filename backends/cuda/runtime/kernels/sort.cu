#include <limits>
#include <type_traits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/sort.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks(int64_t count) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < 65536 ? needed : 65536);
}

// Bits that sort as unsigned numbers in the order of the values.
__device__ inline uint64_t ordered_bits(double value) {
  if (value != value) return ~uint64_t{0};
  if (value == 0.0) value = 0.0;  // -0 is 0
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

__device__ inline uint32_t ordered_bits(float value) {
  if (value != value) return ~uint32_t{0};
  if (value == 0.0f) value = 0.0f;
  const uint32_t bits = __float_as_uint(value);
  return bits >> 31 ? ~bits : bits | uint32_t{1} << 31;
}

template <typename Key>
__global__ void key_kernel(const void* x, ScalarType dtype, bool floating, bool descending,
                           int64_t count, int64_t n, Key* keys, uint32_t* order) {
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    Key key;
    if (floating) {
      using Real = std::conditional_t<sizeof(Key) == 8, double, float>;
      key = ordered_bits(load_as<Real>(x, dtype, i));
    } else if (dtype == ScalarType::UInt64 || dtype == ScalarType::UInt32) {
      key = load_as<Key>(x, dtype, i);
    } else {
      using Signed = std::make_signed_t<Key>;
      key = static_cast<Key>(load_as<Signed>(x, dtype, i)) ^ kSign;
    }
    keys[i] = descending ? ~key : key;
    order[i] = static_cast<uint32_t>(i % n);
  }
}

template <typename Item>
__global__ void gather_kernel(const Item* x, const uint32_t* order, int64_t count, int64_t n,
                              int64_t k, Item* values, int64_t* indices) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const int64_t row = i / k, index = order[row * n + i % k];
    values[i] = x[row * n + index];
    indices[i] = index;
  }
}

template <typename Key>
Error sorted_indices(ScalarType dtype, const void* x, int64_t rows, int64_t n, bool descending,
                     int device, cudaStream_t stream, slim::StorageRef* order) {
  const int64_t count = rows * n;
  const auto nbytes = [&](size_t item) { return static_cast<size_t>(count) * item; };
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef keys, allocate_scratch(nbytes(2 * sizeof(Key)), device));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef unsorted,
                          allocate_scratch(nbytes(sizeof(uint32_t)), device));
  PTERON_ASSIGN_OR_RETURN(*order, allocate_scratch(nbytes(sizeof(uint32_t)), device));
  Key* keys_in = static_cast<Key*>(keys->data);
  Key* keys_out = keys_in + count;
  auto* indices_in = static_cast<uint32_t*>(unsorted->data);
  auto* indices_out = static_cast<uint32_t*>((*order)->data);
  key_kernel<Key><<<blocks(count), kThreads, 0, stream>>>(x, dtype, is_floating(dtype), descending,
                                                          count, n, keys_in, indices_in);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "preparing keys");
  const int key_bits = 8 * static_cast<int>(sizeof(Key));
  size_t scratch_nbytes = 0;
  PTERON_RETURN_IF_ERROR(internal::sort_keys<Key>(keys_in, keys_out, indices_in, indices_out, rows,
                                                  n, key_bits, nullptr, &scratch_nbytes, stream));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(scratch_nbytes > 0 ? scratch_nbytes : 1, device));
  return internal::sort_keys<Key>(keys_in, keys_out, indices_in, indices_out, rows, n, key_bits,
                                  scratch->data, &scratch_nbytes, stream);
}

template <typename Item>
Error gather(const void* x, const slim::StorageRef& order, int64_t rows, int64_t n, int64_t k,
             void* values, int64_t* indices, cudaStream_t stream) {
  const int64_t count = rows * k;
  gather_kernel<Item><<<blocks(count), kThreads, 0, stream>>>(
      static_cast<const Item*>(x), static_cast<const uint32_t*>(order->data), count, n, k,
      static_cast<Item*>(values), indices);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "gathering sorted values");
  return Error::Ok;
}

}  // namespace

Error sort_rows(ScalarType dtype, const void* x, int64_t rows, int64_t n, bool descending,
                int64_t k, void* values, int64_t* indices, int device, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(
      dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn, Error::InvalidType,
      "sort: found %s, expected an integer, bool, float16, bfloat16, float32 or float64",
      name_of(dtype));
  PTERON_CHECK_OR_RETURN(k >= 0 && k <= n, Error::InvalidArgument,
                         "sort: found k %lld, expected 0 to %lld", static_cast<long long>(k),
                         static_cast<long long>(n));
  PTERON_CHECK_OR_RETURN(n <= std::numeric_limits<int32_t>::max(), Error::InvalidArgument,
                         "sort: found rows of %lld elements, expected less than 2^31",
                         static_cast<long long>(n));
  if (rows == 0 || k == 0) return Error::Ok;
  slim::StorageRef order;
  const bool wide = element_size(dtype) == 8;
  PTERON_RETURN_IF_ERROR(
      wide ? sorted_indices<uint64_t>(dtype, x, rows, n, descending, device, stream, &order)
           : sorted_indices<uint32_t>(dtype, x, rows, n, descending, device, stream, &order));
  switch (element_size(dtype)) {
    case 1:
      return gather<uint8_t>(x, order, rows, n, k, values, indices, stream);
    case 2:
      return gather<uint16_t>(x, order, rows, n, k, values, indices, stream);
    case 4:
      return gather<uint32_t>(x, order, rows, n, k, values, indices, stream);
    default:
      return gather<uint64_t>(x, order, rows, n, k, values, indices, stream);
  }
}

}  // namespace pteron::cuda
