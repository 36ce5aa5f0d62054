#include <cub/block/block_scan.cuh>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/scan.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kItems = 4;

// One block per row, a tile of the row at a time.
template <typename Sum>
__global__ void cumsum_kernel(const void* x, ScalarType x_dtype, void* y, ScalarType y_dtype,
                              int64_t rows, int64_t n) {
  using Scan = cub::BlockScan<Sum, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Sum carried{};
    for (int64_t tile = 0; tile < n; tile += kThreads * kItems) {
      Sum items[kItems];
      const int64_t first = tile + static_cast<int64_t>(threadIdx.x) * kItems;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        items[i] = first + i < n ? load_as<Sum>(x, x_dtype, row * n + first + i) : Sum{};
      }
      Sum total;
      Scan(storage).InclusiveSum(items, items, total);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (first + i < n) store_as<Sum>(y, y_dtype, row * n + first + i, carried + items[i]);
      }
      carried += total;
      __syncthreads();  // the storage is used again
    }
  }
}

}  // namespace

Error cumsum_rows(ScalarType x_dtype, const void* x, ScalarType y_dtype, void* y, int64_t rows,
                  int64_t n, cudaStream_t stream) {
  const auto known = [](ScalarType dtype) {
    return dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn;
  };
  PTERON_CHECK_OR_RETURN(known(x_dtype) && known(y_dtype) && y_dtype != ScalarType::Bool,
                         Error::InvalidType, "cumsum: found %s to %s, expected numbers",
                         name_of(x_dtype), name_of(y_dtype));
  if (rows == 0 || n == 0) return Error::Ok;
  const unsigned grid = static_cast<unsigned>(rows < 65536 ? rows : 65536);
  switch (y_dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
      cumsum_kernel<float><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n);
      break;
    case ScalarType::Double:
      cumsum_kernel<double><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n);
      break;
    default:
      cumsum_kernel<int64_t><<<grid, kThreads, 0, stream>>>(x, x_dtype, y, y_dtype, rows, n);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "summing rows");
  return Error::Ok;
}

}  // namespace pteron::cuda
