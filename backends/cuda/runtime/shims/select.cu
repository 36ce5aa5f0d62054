// One element of each row, of sorted rows.
#include <cub/block/block_reduce.cuh>

#include "pteron/backends/aoti/ops/select/select.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"
#include "pteron/backends/cuda/runtime/shims/sort.cuh"

namespace pteron::cuda {
namespace {

using Kind = aoti::SelectCall::Kind;

constexpr int kModeThreads = 128;

// Kernel arguments.
struct SortedRows {
  Numbers values;
  const int64_t* indices;
  int64_t rows, n;
};

template <typename T>
__device__ void take(const SortedRows& sorted, int64_t row, int64_t at, Numbers values,
                     int64_t* indices) {
  values.store(row, sorted.values.load<T>(at));
  indices[row] = sorted.indices[at];
}

template <typename T>
__global__ void rank_kernel(SortedRows sorted, Kind kind, Numbers values, int64_t* indices) {
  for_each_item(sorted.rows, [&](int64_t row) {
    const int64_t n = sorted.n, begin = row * n;
    int64_t rank = n - 1;
    if (kind != Kind::kKth) {
      const int64_t numbers = first_that(n, [&](int64_t i) {
        const T value = sorted.values.load<T>(begin + i);
        return value != value;
      });
      if (kind == Kind::kMedian) {
        rank = numbers < n ? numbers : (n - 1) / 2;
      } else {
        rank = numbers > 0 ? (numbers - 1) / 2 : 0;
      }
    }
    take<T>(sorted, row, begin + rank, values, indices);
  });
}

// One block per row.
template <typename T>
__global__ void mode_kernel(SortedRows sorted, Numbers values, int64_t* indices) {
  using Reduce = cub::BlockReduce<uint64_t, kModeThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int64_t n = sorted.n;
  for (int64_t row = blockIdx.x; row < sorted.rows; row += gridDim.x) {
    const auto at = [&](int64_t i) { return sorted.values.load<T>(row * n + i); };
    // How often the element at the end of a run is there, and where, the first counting more.
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < n; i += kModeThreads) {
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
Error launch(const aoti::SelectCall& call, const SortedRows& sorted, cudaStream_t stream) {
  constexpr const char* kWhat = "selecting from sorted rows";
  const Numbers values = numbers_of(call.values);
  auto* const indices = call.indices.data_as<int64_t>();
  if (call.kind != Kind::kMode) {
    return launch_items(sorted.rows, stream, kWhat, rank_kernel<T>, sorted, call.kind, values,
                        indices);
  }
  const auto blocks = static_cast<unsigned>(sorted.rows < 65536 ? sorted.rows : 65536);
  mode_kernel<T><<<blocks, kModeThreads, 0, stream>>>(sorted, values, indices);
  return launched(kWhat);
}

}  // namespace

Error select(const aoti::SelectCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  const int64_t rows = call.values.numel(), length = aoti::size_along(call.self, call.dim);
  const int64_t n = call.kind == Kind::kKth ? call.k : length;  // of each sorted row
  const auto count = static_cast<size_t>(rows * n);
  if (count == 0) return Error::Ok;
  const ScalarType type = type_of(*x);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef values,
                          allocate_scratch(count * element_size(type), scope.device()));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef indices,
                          allocate_scratch(count * sizeof(int64_t), scope.device()));
  auto* const order = static_cast<int64_t*>(indices->data);
  PTERON_RETURN_IF_ERROR(
      sort_rows(numbers_of(*x), rows, length, /*descending=*/false, n, values->data, order, scope));
  const SortedRows sorted{{values->data, type}, order, rows, n};
  const auto run = type == ScalarType::Double   ? launch<double>
                   : is_floating(type)          ? launch<float>
                   : type == ScalarType::UInt64 ? launch<uint64_t>
                                                : launch<int64_t>;
  return run(call, sorted, scope.stream());
}

}  // namespace pteron::cuda
