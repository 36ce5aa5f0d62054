#include <cub/device/device_merge_sort.cuh>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/cuda/runtime/kernels/items.cuh"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/runs.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

// Of what type numbers of a dtype are compared.
enum class As { kReal, kSigned, kUnsigned };

As as_of(ScalarType dtype) {
  if (is_floating(dtype)) return As::kReal;
  return dtype == ScalarType::UInt64 ? As::kUnsigned : As::kSigned;
}

// Calls body(Number{}).
template <typename Body>
__device__ bool with_number(As as, const Body& body) {
  if (as == As::kReal) return body(double{});
  return as == As::kSigned ? body(int64_t{}) : body(uint64_t{});
}

struct RowLess {
  Matrix matrix;
  As as;

  __device__ bool operator()(int64_t a, int64_t b) const {
    return with_number(as, [&](auto number) {
      using T = decltype(number);
      for (int64_t i = 0; i < matrix.width; ++i) {
        const T x = load_as<T>(matrix.data, matrix.dtype, a * matrix.width + i);
        const T y = load_as<T>(matrix.data, matrix.dtype, b * matrix.width + i);
        if (x < y || (y != y && x == x)) return true;
        if (y < x || (x != x && y == y)) return false;
      }
      return false;
    });
  }
};

__global__ void count_kernel(int64_t* numbers, int64_t count) {
  for_each_item(count, [&](int64_t i) { numbers[i] = i; });
}

__global__ void mark_kernel(Matrix matrix, As as, const int64_t* order, bool* starts) {
  for_each_item(matrix.rows, [&](int64_t i) {
    const int64_t a = i == 0 ? 0 : order ? order[i - 1] : i - 1, b = order ? order[i] : i;
    starts[i] = i == 0 || with_number(as, [&](auto number) {
                  using T = decltype(number);
                  for (int64_t k = 0; k < matrix.width; ++k) {
                    const T x = load_as<T>(matrix.data, matrix.dtype, a * matrix.width + k);
                    const T y = load_as<T>(matrix.data, matrix.dtype, b * matrix.width + k);
                    if (!(x == y)) return true;
                  }
                  return false;
                });
  });
}

template <typename T>
__global__ void number_kernel(Runs runs, const int64_t* order, T* numbers) {
  for_each_item(runs.count, [&](int64_t i) {
    int64_t low = 0, high = runs.num_ends;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (runs.ends[middle] <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    numbers[order ? order[i] : i] = static_cast<T>(low);
  });
}

__global__ void measure_kernel(Runs runs, int64_t num_lengths, int64_t* lengths) {
  for_each_item(num_lengths, [&](int64_t k) {
    const int64_t end = k < runs.num_ends ? runs.ends[k] : runs.count;
    lengths[k] = end - (k > 0 ? runs.ends[k - 1] : 0);
  });
}

Error check(ScalarType dtype) {
  const bool known = element_size(dtype) > 0 && dtype != ScalarType::Float8_e5m2 &&
                     dtype != ScalarType::Float8_e4m3fn;
  PTERON_CHECK_OR_RETURN(known, Error::InvalidType, "rows: found %s, expected real numbers",
                         name_of(dtype));
  return Error::Ok;
}

}  // namespace

Error order_rows(const Matrix& matrix, int64_t* order, int device, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(matrix.dtype));
  if (matrix.rows == 0) return Error::Ok;
  count_kernel<<<item_blocks(matrix.rows), kItemThreads, 0, stream>>>(order, matrix.rows);
  PTERON_RETURN_IF_ERROR(launched("numbering rows"));
  const RowLess less{matrix, as_of(matrix.dtype)};
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceMergeSort::StableSortKeys(nullptr, nbytes, order, matrix.rows, less, stream),
      "sizing the sort of rows");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes > 0 ? nbytes : 1, device));
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceMergeSort::StableSortKeys(scratch->data, nbytes, order, matrix.rows, less, stream),
      "sorting rows");
  return Error::Ok;
}

Error mark_runs(const Matrix& matrix, const int64_t* order, bool* starts, cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(matrix.dtype));
  if (matrix.rows == 0) return Error::Ok;
  mark_kernel<<<item_blocks(matrix.rows), kItemThreads, 0, stream>>>(matrix, as_of(matrix.dtype),
                                                                     order, starts);
  return launched("marking runs");
}

Error number_runs(const Runs& runs, const int64_t* order, bool wide, void* numbers,
                  cudaStream_t stream) {
  if (runs.count == 0) return Error::Ok;
  const unsigned blocks = item_blocks(runs.count);
  if (wide) {
    number_kernel<<<blocks, kItemThreads, 0, stream>>>(runs, order, static_cast<int64_t*>(numbers));
  } else {
    number_kernel<<<blocks, kItemThreads, 0, stream>>>(runs, order, static_cast<int32_t*>(numbers));
  }
  return launched("numbering runs");
}

Error measure_runs(const Runs& runs, int64_t num_lengths, int64_t* lengths, cudaStream_t stream) {
  if (num_lengths == 0) return Error::Ok;
  measure_kernel<<<item_blocks(num_lengths), kItemThreads, 0, stream>>>(runs, num_lengths, lengths);
  return launched("measuring runs");
}

}  // namespace pteron::cuda
