#include <cub/block/block_reduce.cuh>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/select.h"
#include "pteron/backends/cuda/runtime/kernels/sort.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 128;

// Rows that are sorted, and how many of each there are.
struct SortedRows {
  const void* values;
  const int64_t* indices;
  ScalarType dtype;
  int64_t rows;
  int64_t n;
};

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

template <typename T>
__device__ void take(const SortedRows& sorted, int64_t row, int64_t at, void* values,
                     int64_t* indices) {
  store_as<T>(values, sorted.dtype, row, load_as<T>(sorted.values, sorted.dtype, at));
  indices[row] = sorted.indices[at];
}

template <typename T>
__global__ void rank_kernel(SortedRows sorted, SelectionKind kind, void* values, int64_t* indices) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads, n = sorted.n;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; row < sorted.rows;
       row += step) {
    const int64_t begin = row * n;
    int64_t rank = n - 1;
    if (kind != SelectionKind::kKth) {
      const int64_t numbers = first_that(n, [&](int64_t i) {
        const T value = load_as<T>(sorted.values, sorted.dtype, begin + i);
        return value != value;
      });
      if (kind == SelectionKind::kMedian) {
        rank = numbers < n ? numbers : (n - 1) / 2;
      } else {
        rank = numbers > 0 ? (numbers - 1) / 2 : 0;
      }
    }
    take<T>(sorted, row, begin + rank, values, indices);
  }
}

// One block per row.
template <typename T>
__global__ void mode_kernel(SortedRows sorted, void* values, int64_t* indices) {
  using Reduce = cub::BlockReduce<uint64_t, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int64_t n = sorted.n;
  for (int64_t row = blockIdx.x; row < sorted.rows; row += gridDim.x) {
    const auto at = [&](int64_t i) { return load_as<T>(sorted.values, sorted.dtype, row * n + i); };
    // How often the element at the end of a run is there, and where, the first counting more.
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < n; i += kThreads) {
      const T value = at(i);
      if (i + 1 < n && at(i + 1) == value) continue;
      const int64_t run =
          value != value ? 1 : i + 1 - first_that(i, [&](int64_t j) { return !(at(j) < value); });
      const uint64_t found =
          static_cast<uint64_t>(run) << 32 | static_cast<uint64_t>(UINT32_MAX - i);
      if (found > best) best = found;
    }
    best = Reduce(storage).Reduce(best, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
    if (threadIdx.x == 0) {
      const auto i = static_cast<int64_t>(UINT32_MAX - static_cast<uint32_t>(best));
      take<T>(sorted, row, row * n + i, values, indices);
    }
    __syncthreads();  // the storage is used again
  }
}

template <typename T>
Error launch(SelectionKind kind, const SortedRows& sorted, void* values, int64_t* indices,
             cudaStream_t stream) {
  const int64_t blocks =
      kind == SelectionKind::kMode ? sorted.rows : (sorted.rows + kThreads - 1) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
  if (kind == SelectionKind::kMode) {
    mode_kernel<T><<<grid, kThreads, 0, stream>>>(sorted, values, indices);
  } else {
    rank_kernel<T><<<grid, kThreads, 0, stream>>>(sorted, kind, values, indices);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "selecting from sorted rows");
  return Error::Ok;
}

}  // namespace

Error select_of_rows(const Selection& selection, ScalarType dtype, const void* x, void* values,
                     int64_t* indices, int device, cudaStream_t stream) {
  const SelectionKind kind = selection.kind;
  const int64_t n = kind == SelectionKind::kKth ? selection.k : selection.n;
  const auto count = static_cast<size_t>(selection.rows * n);
  if (count == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef sorted_values,
                          allocate_scratch(count * element_size(dtype), device));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef sorted_indices,
                          allocate_scratch(count * sizeof(int64_t), device));
  auto* const order = static_cast<int64_t*>(sorted_indices->data);
  PTERON_RETURN_IF_ERROR(sort_rows(dtype, x, selection.rows, selection.n, /*descending=*/false, n,
                                   sorted_values->data, order, device, stream));
  const SortedRows sorted{sorted_values->data, order, dtype, selection.rows, n};
  if (dtype == ScalarType::Double) return launch<double>(kind, sorted, values, indices, stream);
  if (is_floating(dtype)) return launch<float>(kind, sorted, values, indices, stream);
  if (dtype == ScalarType::UInt64) return launch<uint64_t>(kind, sorted, values, indices, stream);
  return launch<int64_t>(kind, sorted, values, indices, stream);
}

}  // namespace pteron::cuda
