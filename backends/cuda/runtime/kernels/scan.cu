#include <cub/block/block_scan.cuh>
#include <limits>
#include <type_traits>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/scan.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kItems = 4;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Product {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};

struct LogSumExp {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    if (a != a || b != b) return a + b;
    const T high = a > b ? a : b, low = a > b ? b : a;
    return isinf(high) ? high : high + log1p(exp(low - high));
  }
};

// An element and where it was; none if `index` is negative.
template <typename T>
struct Extreme {
  T value;
  int64_t index;
};

template <typename T>
struct Better {
  bool greatest;
  __device__ Extreme<T> operator()(Extreme<T> a, Extreme<T> b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (b.value != b.value) return b;
    if (a.value != a.value) return a;
    return (greatest ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
};

// One block per row, a tile of the row at a time. load(i) gives an element of the row at `row`,
// store(i, value) takes what was accumulated up to it.
template <typename T, typename Step, typename Load, typename Store>
__device__ void scan_rows_of(int64_t rows, int64_t n, T start, const Step& step, const Load& load,
                             const Store& store) {
  using BlockScan = cub::BlockScan<T, kThreads>;
  __shared__ typename BlockScan::TempStorage storage;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T carried = start;
    for (int64_t tile = 0; tile < n; tile += kThreads * kItems) {
      T items[kItems];
      const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * kItems;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        items[i] = first + i < n ? load(row, first + i) : start;
      }
      T total;
      BlockScan(storage).InclusiveScan(items, items, step, total);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (first + i < n) store(row, first + i, step(carried, items[i]));
      }
      carried = step(carried, total);
      __syncthreads();  // the storage is used again
    }
  }
}

template <typename T, typename Step>
__global__ void scan_kernel(const void* x, ScalarType x_dtype, void* y, ScalarType y_dtype,
                            int64_t rows, int64_t n, T start, Step step) {
  scan_rows_of<T>(
      rows, n, start, step,
      [&](int64_t row, int64_t i) { return load_as<T>(x, x_dtype, row * n + i); },
      [&](int64_t row, int64_t i, T value) { store_as<T>(y, y_dtype, row * n + i, value); });
}

template <typename T>
__global__ void extreme_kernel(const void* x, ScalarType dtype, void* y, int64_t* indices,
                               int64_t rows, int64_t n, Better<T> better) {
  scan_rows_of<Extreme<T>>(
      rows, n, Extreme<T>{T{}, -1}, better,
      [&](int64_t row, int64_t i) { return Extreme<T>{load_as<T>(x, dtype, row * n + i), i}; },
      [&](int64_t row, int64_t i, Extreme<T> extreme) {
        store_as<T>(y, dtype, row * n + i, extreme.value);
        indices[row * n + i] = extreme.index;
      });
}

unsigned grid_of(int64_t rows) { return static_cast<unsigned>(rows < 65536 ? rows : 65536); }

Error check(ScalarType dtype) {
  PTERON_CHECK_OR_RETURN(dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn,
                         Error::InvalidType, "scan: found %s, expected numbers of other types",
                         name_of(dtype));
  return Error::Ok;
}

template <typename T>
Error launch(const Scan& scan, ScalarType x_dtype, const void* x, ScalarType y_dtype, void* y,
             cudaStream_t stream) {
  const unsigned grid = grid_of(scan.rows);
  const int64_t rows = scan.rows, n = scan.n;
  if (scan.kind == ScanKind::kSum) {
    scan_kernel<T><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n, T{0}, Sum{});
  } else if (scan.kind == ScanKind::kProduct) {
    scan_kernel<T><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n, T{1}, Product{});
  } else if constexpr (std::is_floating_point_v<T>) {
    scan_kernel<T><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n,
                                                  -std::numeric_limits<T>::infinity(), LogSumExp{});
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "accumulating rows");
  return Error::Ok;
}

template <typename T>
Error launch_extremes(const Scan& scan, ScalarType dtype, const void* x, void* y, int64_t* indices,
                      cudaStream_t stream) {
  extreme_kernel<T><<<grid_of(scan.rows), kThreads, 0, stream>>>(
      x, dtype, y, indices, scan.rows, scan.n, Better<T>{scan.kind == ScanKind::kMaximum});
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "accumulating extremes of rows");
  return Error::Ok;
}

}  // namespace

Error scan_rows(const Scan& scan, ScalarType x_dtype, const void* x, ScalarType y_dtype, void* y,
                cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(x_dtype));
  PTERON_RETURN_IF_ERROR(check(y_dtype));
  if (scan.rows == 0 || scan.n == 0) return Error::Ok;
  if (y_dtype == ScalarType::Double) {
    return launch<double>(scan, x_dtype, x, y_dtype, y, stream);
  }
  if (is_floating(y_dtype)) return launch<float>(scan, x_dtype, x, y_dtype, y, stream);
  return launch<int64_t>(scan, x_dtype, x, y_dtype, y, stream);
}

Error scan_extremes(const Scan& scan, ScalarType dtype, const void* x, void* y, int64_t* indices,
                    cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(check(dtype));
  if (scan.rows == 0 || scan.n == 0) return Error::Ok;
  if (dtype == ScalarType::Double) {
    return launch_extremes<double>(scan, dtype, x, y, indices, stream);
  }
  if (is_floating(dtype)) return launch_extremes<float>(scan, dtype, x, y, indices, stream);
  if (dtype == ScalarType::UInt64) {
    return launch_extremes<uint64_t>(scan, dtype, x, y, indices, stream);
  }
  return launch_extremes<int64_t>(scan, dtype, x, y, indices, stream);
}

}  // namespace pteron::cuda
