// Runs of equal rows of a matrix, and of other elements that lie one after the other.
#include <cub/device/device_merge_sort.cuh>

#include "pteron/backends/aoti/ops/unique/runs.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

// Kernel arguments: row-major, and the type in which elements are compared.
struct Matrix {
  enum class As { kReal, kSigned, kUnsigned };

  explicit Matrix(const SlimTensor& tensor)
      : elements(numbers_of(tensor)),
        as(is_floating(elements.dtype)            ? As::kReal
           : elements.dtype == ScalarType::UInt64 ? As::kUnsigned
                                                  : As::kSigned),
        rows(tensor.size(0)),
        width(tensor.size(1)) {}

  // The first answer other than `kEqual` of compare(element of row a, element of row b), else it.
  template <typename Compare>
  __device__ int first_of(int64_t a, int64_t b, const Compare& compare) const {
    if (as == As::kReal) return first_as<double>(a, b, compare);
    return as == As::kSigned ? first_as<int64_t>(a, b, compare) : first_as<uint64_t>(a, b, compare);
  }

  Numbers elements;
  As as;
  int64_t rows, width;

 private:
  template <typename T, typename Compare>
  __device__ int first_as(int64_t a, int64_t b, const Compare& compare) const {
    for (int64_t i = 0; i < width; ++i) {
      const int found = compare(elements.load<T>(a * width + i), elements.load<T>(b * width + i));
      if (found != 0) return found;
    }
    return 0;
  }
};

struct RowLess {
  Matrix matrix;

  __device__ bool operator()(int64_t a, int64_t b) const {
    return matrix.first_of(a, b, [](auto x, auto y) {
      if (x < y || (y != y && x == x)) return -1;
      return y < x || (x != x && y == y) ? 1 : 0;
    }) < 0;
  }
};

__global__ void count_kernel(int64_t* numbers, int64_t count) {
  for_each_item(count, [&](int64_t i) { numbers[i] = i; });
}

__global__ void mark_kernel(Matrix matrix, const int64_t* order, bool* starts) {
  for_each_item(matrix.rows, [&](int64_t i) {
    const int64_t a = i == 0 ? 0 : order ? order[i - 1] : i - 1, b = order ? order[i] : i;
    const auto differ = [](auto x, auto y) { return x == y ? 0 : 1; };
    starts[i] = i == 0 || matrix.first_of(a, b, differ) != 0;
  });
}

// Element i of `count` belongs to the first run k with i < ends[k], or to run `num_ends`.
struct Runs {
  int64_t count;
  const int64_t* ends;
  int64_t num_ends;
};

__global__ void number_kernel(Runs runs, const int64_t* order, Indices numbers) {
  for_each_item(runs.count, [&](int64_t i) {
    const int64_t run = first_that(runs.num_ends, [&](int64_t k) { return i < runs.ends[k]; });
    numbers.store(order ? order[i] : i, run);
  });
}

__global__ void measure_kernel(Runs runs, int64_t num_lengths, int64_t* lengths) {
  for_each_item(num_lengths, [&](int64_t k) {
    const int64_t end = k < runs.num_ends ? runs.ends[k] : runs.count;
    lengths[k] = end - (k > 0 ? runs.ends[k - 1] : 0);
  });
}

Error check(const SlimTensor& rows) {
  const ScalarType type = type_of(rows);
  PTERON_CHECK_OR_RETURN(element_size(type) > 0 && !is_float8(type), Error::InvalidType,
                         "rows: found %s, expected real numbers", name_of(type));
  return Error::Ok;
}

const int64_t* data_of(const SlimTensor* tensor) {
  return tensor ? tensor->data_as<const int64_t>() : nullptr;
}

}  // namespace

Error order_rows(const SlimTensor& rows, const SlimTensor& order) {
  PTERON_RETURN_IF_ERROR(check(rows));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(rows));
  const RowLess less{Matrix(rows)};
  const int64_t count = rows.size(0);
  if (count == 0) return Error::Ok;
  auto* const numbers = order.data_as<int64_t>();
  PTERON_RETURN_IF_ERROR(
      launch_items(count, scope.stream(), "numbering rows", count_kernel, numbers, count));
  size_t nbytes = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cub::DeviceMergeSort::StableSortKeys(nullptr, nbytes, numbers, count, less, scope.stream()),
      "sizing the sort of rows");
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch,
                          allocate_scratch(nbytes > 0 ? nbytes : 1, scope.device()));
  PTERON_CUDA_RETURN_IF_ERROR(cub::DeviceMergeSort::StableSortKeys(scratch->data, nbytes, numbers,
                                                                   count, less, scope.stream()),
                              "sorting rows");
  return Error::Ok;
}

Error mark_runs(const SlimTensor& rows, const SlimTensor* order, const SlimTensor& starts) {
  PTERON_RETURN_IF_ERROR(check(rows));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(rows));
  return launch_items(rows.size(0), scope.stream(), "marking runs", mark_kernel, Matrix(rows),
                      data_of(order), starts.data_as<bool>());
}

Error number_runs(const aoti::RunsCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.ends));
  const Runs runs{call.count, call.ends.data_as<const int64_t>(), call.ends.numel()};
  if (call.numbers) {
    PTERON_RETURN_IF_ERROR(launch_items(call.count, scope.stream(), "numbering runs", number_kernel,
                                        runs, data_of(call.order), indices_of(*call.numbers)));
  }
  if (!call.lengths) return Error::Ok;
  return launch_items(call.lengths->numel(), scope.stream(), "measuring runs", measure_kernel, runs,
                      call.lengths->numel(), call.lengths->data_as<int64_t>());
}

}  // namespace pteron::cuda
