#include <cub/block/block_scan.cuh>
#include <limits>
#include <type_traits>

#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/aoti/ops/scan/scan_steps.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"

namespace pteron::cuda {
namespace {

using Kind = aoti::ScanCall::Kind;

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

struct LogOfExpSum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return aoti::log_of_exp_sum(a, b);
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
  bool is_maximum;
  __device__ Extreme<T> operator()(Extreme<T> a, Extreme<T> b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    return aoti::replaces_extreme(is_maximum, a.value, b.value) ? b : a;
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

// Of rows of n elements, one after the other.
struct Matrix {
  Numbers x, y;
  int64_t rows, n;
};

template <typename T, typename Step>
__global__ void scan_kernel(Matrix m, T start, Step step) {
  scan_rows_of<T>(
      m.rows, m.n, start, step, [&](int64_t row, int64_t i) { return m.x.load<T>(row * m.n + i); },
      [&](int64_t row, int64_t i, T value) { m.y.store(row * m.n + i, value); });
}

template <typename T>
__global__ void extreme_kernel(Matrix m, int64_t* indices, Better<T> better) {
  scan_rows_of<Extreme<T>>(
      m.rows, m.n, Extreme<T>{T{}, -1}, better,
      [&](int64_t row, int64_t i) { return Extreme<T>{m.x.load<T>(row * m.n + i), i}; },
      [&](int64_t row, int64_t i, Extreme<T> extreme) {
        m.y.store(row * m.n + i, extreme.value);
        indices[row * m.n + i] = extreme.index;
      });
}

template <typename T>
void launch(Kind kind, const Matrix& m, int64_t* indices, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(m.rows < 65536 ? m.rows : 65536);
  if (indices) {
    extreme_kernel<T><<<grid, kThreads, 0, stream>>>(m, indices, Better<T>{kind == Kind::kMaximum});
  } else if constexpr (std::is_unsigned_v<T>) {
    return;  // sums of all integers are those of int64
  } else if (kind == Kind::kSum) {
    scan_kernel<T><<<grid, kThreads, 0, stream>>>(m, T{0}, Sum{});
  } else if (kind == Kind::kProduct) {
    scan_kernel<T><<<grid, kThreads, 0, stream>>>(m, T{1}, Product{});
  } else if constexpr (std::is_floating_point_v<T>) {
    scan_kernel<T>
        <<<grid, kThreads, 0, stream>>>(m, -std::numeric_limits<T>::infinity(), LogOfExpSum{});
  }
}

Error check(const SlimTensor& tensor) {
  PTERON_CHECK_OR_RETURN(!is_float8(type_of(tensor)), Error::InvalidType,
                         "scan: found %s, expected numbers of other types",
                         slim::name_of(tensor.dtype()));
  return Error::Ok;
}

}  // namespace

Error scan(const aoti::ScanCall& call) {
  PTERON_RETURN_IF_ERROR(check(call.self));
  PTERON_RETURN_IF_ERROR(check(call.out));
  if (call.self.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(call.self, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult out, RowResult::make(call.out, call.dim));
  RowResult indices;
  if (call.indices) {
    PTERON_ASSIGN_OR_RETURN(indices, RowResult::make(*call.indices, call.dim));
  }
  const int64_t n = aoti::size_along(call.self, call.dim);
  const ScalarType type = type_of(call.out);
  const Matrix m{numbers_of(*x), {out.data(), type}, call.self.numel() / n, n};
  const auto run = type == ScalarType::Double                   ? launch<double>
                   : is_floating(type)                          ? launch<float>
                   : call.indices && type == ScalarType::UInt64 ? launch<uint64_t>
                                                                : launch<int64_t>;
  run(call.kind, m, call.indices ? static_cast<int64_t*>(indices.data()) : nullptr, scope.stream());
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "accumulating rows");
  PTERON_RETURN_IF_ERROR(out.finish());
  return call.indices ? indices.finish() : Error(Error::Ok);
}

}  // namespace pteron::cuda
