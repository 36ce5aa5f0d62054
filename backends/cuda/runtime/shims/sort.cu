#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <limits>
#include <type_traits>

#include "pteron/backends/aoti/ops/sort/sort.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/sort.cuh"

namespace pteron::cuda {
namespace {

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
__global__ void key_kernel(Numbers x, bool floating, bool descending, int64_t count, int64_t n,
                           Key* keys, uint32_t* order) {
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  for_each_item(count, [&](int64_t i) {
    Key key;
    if (floating) {
      using Real = std::conditional_t<sizeof(Key) == 8, double, float>;
      key = ordered_bits(x.load<Real>(i));
    } else if (x.dtype == ScalarType::UInt64 || x.dtype == ScalarType::UInt32) {
      key = x.load<Key>(i);
    } else {
      using Signed = std::make_signed_t<Key>;
      key = static_cast<Key>(x.load<Signed>(i)) ^ kSign;
    }
    keys[i] = descending ? ~key : key;
    order[i] = static_cast<uint32_t>(i % n);
  });
}

template <typename Item>
__global__ void gather_kernel(const Item* x, const uint32_t* order, int64_t count, int64_t n,
                              int64_t k, Item* values, int64_t* indices) {
  for_each_item(count, [&](int64_t i) {
    const int64_t row = i / k, index = order[row * n + i % k];
    values[i] = x[row * n + index];
    indices[i] = index;
  });
}

struct RowStart {
  int64_t n;
  __host__ __device__ int64_t operator()(int64_t row) const { return row * n; }
};

// Sorts `keys_in` of each row ascending into `keys_out`, and `indices_in` along. With `scratch` null
// only `scratch_nbytes` is set.
template <typename Key>
Error sort_keys(const Key* keys_in, Key* keys_out, const uint32_t* indices_in,
                uint32_t* indices_out, int64_t rows, int64_t n, void* scratch,
                size_t* scratch_nbytes, cudaStream_t stream) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(Key));
  if (rows == 1) {
    PTERON_CUDA_RETURN_IF_ERROR(
        cub::DeviceRadixSort::SortPairs(scratch, *scratch_nbytes, keys_in, keys_out, indices_in,
                                        indices_out, n, 0, kBits, stream),
        "sorting");
    return Error::Ok;
  }
  const auto starts =
      thrust::make_transform_iterator(thrust::make_counting_iterator<int64_t>(0), RowStart{n});
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceSegmentedRadixSort::SortPairs(scratch, *scratch_nbytes, keys_in, keys_out,
                                               indices_in, indices_out, rows * n, rows, starts,
                                               starts + 1, 0, kBits, stream),
      "sorting rows");
  return Error::Ok;
}

template <typename Key>
Error sorted_indices(const Numbers& x, int64_t rows, int64_t n, bool descending,
                     const DeviceScope& scope, slim::StorageRef* order) {
  const cudaStream_t stream = scope.stream();
  const int64_t count = rows * n;
  const auto allocate = [&](size_t item) {
    return allocate_scratch(static_cast<size_t>(count) * item, scope.device());
  };
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef keys, allocate(2 * sizeof(Key)));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef unsorted, allocate(sizeof(uint32_t)));
  PTERON_ASSIGN_OR_RETURN(*order, allocate(sizeof(uint32_t)));
  Key* keys_in = static_cast<Key*>(keys->data);
  Key* keys_out = keys_in + count;
  auto* indices_in = static_cast<uint32_t*>(unsorted->data);
  auto* indices_out = static_cast<uint32_t*>((*order)->data);
  PTERON_RETURN_IF_ERROR(launch_items(count, stream, "preparing keys", key_kernel<Key>, x,
                                      is_floating(x.dtype), descending, count, n, keys_in,
                                      indices_in));
  size_t scratch_nbytes = 0;
  PTERON_RETURN_IF_ERROR(sort_keys<Key>(keys_in, keys_out, indices_in, indices_out, rows, n,
                                        nullptr, &scratch_nbytes, stream));
  PTERON_ASSIGN_OR_RETURN(
      slim::StorageRef scratch,
      allocate_scratch(scratch_nbytes > 0 ? scratch_nbytes : 1, scope.device()));
  return sort_keys<Key>(keys_in, keys_out, indices_in, indices_out, rows, n, scratch->data,
                        &scratch_nbytes, stream);
}

}  // namespace

Error sort_rows(const Numbers& x, int64_t rows, int64_t n, bool descending, int64_t k, void* values,
                int64_t* indices, const DeviceScope& scope) {
  PTERON_CHECK_OR_RETURN(
      !is_float8(x.dtype), Error::InvalidType,
      "sort: found %s, expected an integer, bool, float16, bfloat16, float32 or float64",
      name_of(x.dtype));
  PTERON_CHECK_OR_RETURN(k >= 0 && k <= n, Error::InvalidArgument,
                         "sort: found k %lld, expected 0 to %lld", static_cast<long long>(k),
                         static_cast<long long>(n));
  PTERON_CHECK_OR_RETURN(n <= std::numeric_limits<int32_t>::max(), Error::InvalidArgument,
                         "sort: found rows of %lld elements, expected less than 2^31",
                         static_cast<long long>(n));
  if (rows == 0 || k == 0) return Error::Ok;
  slim::StorageRef order;
  const size_t nbytes = element_size(x.dtype);
  const auto sort_indices = nbytes == 8 ? sorted_indices<uint64_t> : sorted_indices<uint32_t>;
  PTERON_RETURN_IF_ERROR(sort_indices(x, rows, n, descending, scope, &order));
  return with_item(nbytes, "sort", [&](auto item) {
    using Item = decltype(item);
    return launch_items(rows * k, scope.stream(), "gathering sorted values", gather_kernel<Item>,
                        static_cast<const Item*>(x.data), static_cast<const uint32_t*>(order->data),
                        rows * k, n, k, static_cast<Item*>(values), indices);
  });
}

Error sort(const aoti::SortCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult values, RowResult::make(call.values, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult indices, RowResult::make(call.indices, call.dim));
  const int64_t n = aoti::size_along(call.self, call.dim);
  const int64_t rows = n == 0 ? 0 : call.self.numel() / n;
  PTERON_RETURN_IF_ERROR(sort_rows(numbers_of(*x), rows, n, call.descending, call.count,
                                   values.data(), static_cast<int64_t*>(indices.data()), scope));
  PTERON_RETURN_IF_ERROR(values.finish());
  return indices.finish();
}

}  // namespace pteron::cuda
