#include <type_traits>

#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/product.h"

namespace pteron::cuda {
namespace {

// Kernel arguments: out = alpha * a @ b + beta * c.
struct IntegerProduct {
  MatrixView out, a, b;
  MatrixView c;  // of the shape of out, may be out; data is null: nothing is added
  int64_t alpha, beta;
};

constexpr int kTile = 32;  // rows and columns per block
constexpr int kRows = 8;   // of its threads
constexpr int kMaxBlocks = 1 << 20;

__host__ __device__ int64_t tiles_of(int64_t size) { return (size + kTile - 1) / kTile; }

template <typename T>
__device__ T* at(const MatrixView& view, int64_t batch, int64_t row, int64_t col) {
  return static_cast<T*>(view.data) + batch * view.batch_stride + row * view.row_stride +
         col * view.col_stride;
}

template <typename In, typename Out>
__global__ void product_kernel(__grid_constant__ const IntegerProduct p) {
  // Unsigned, since they wrap.
  using Sum = std::conditional_t<sizeof(Out) == 8, uint64_t, uint32_t>;
  __shared__ Sum a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int64_t m = p.out.rows, n = p.out.cols, k = p.a.cols;
  const int64_t down = tiles_of(m), across = tiles_of(n), tiles = p.out.batch * down * across;
  const int x = threadIdx.x, y = threadIdx.y;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t batch = tile / across / down;
    const int64_t row = tile / across % down * kTile + y, col = tile % across * kTile + x;
    Sum sums[kTile / kRows] = {};
    for (int64_t l = 0; l < k; l += kTile) {
      for (int i = 0; i < kTile; i += kRows) {
        a[y + i][x] = row + i < m && l + x < k
                          ? static_cast<Sum>(*at<const In>(p.a, batch, row + i, l + x))
                          : 0;
        b[y + i][x] = l + y + i < k && col < n
                          ? static_cast<Sum>(*at<const In>(p.b, batch, l + y + i, col))
                          : 0;
      }
      __syncthreads();
      for (int j = 0; j < kTile; ++j) {
        for (int i = 0; i < kTile / kRows; ++i) sums[i] += a[y + i * kRows][j] * b[j][x];
      }
      __syncthreads();
    }
    for (int i = 0; i < kTile / kRows; ++i) {
      if (row + i * kRows >= m || col >= n) continue;
      Sum value = static_cast<Sum>(p.alpha) * sums[i];
      if (p.c.data) {
        const Out c = *at<const Out>(p.c, batch, row + i * kRows, col);
        value += static_cast<Sum>(p.beta) * static_cast<Sum>(c);
      }
      *at<Out>(p.out, batch, row + i * kRows, col) = static_cast<Out>(value);
    }
  }
}

template <typename In, typename Out>
Error launch(const IntegerProduct& p, cudaStream_t stream) {
  const int64_t tiles = p.out.batch * tiles_of(p.out.rows) * tiles_of(p.out.cols);
  if (tiles == 0) return Error::Ok;
  const auto blocks = static_cast<unsigned>(tiles < kMaxBlocks ? tiles : kMaxBlocks);
  product_kernel<In, Out><<<blocks, dim3(kTile, kRows), 0, stream>>>(p);
  return launched("launching an integer matmul");
}

// int8 to int32. NotSupported where the tensor cores or the library cannot.
Error run_on_tensor_cores(const IntegerProduct& p, const DeviceScope& scope) {
  const auto a = in_place(p.a), b = in_place(p.b), out = in_place(p.out);
  if (!a || !b || !out) return Error::NotSupported;
  GemmProblem problem;
  problem.dtype = ScalarType::Char;
  problem.m = p.out.rows;
  problem.n = p.out.cols;
  problem.k = p.a.cols;
  problem.a = *a;
  problem.b = *b;
  problem.out = *out;
  return gemm_wide(problem, scope.device(), scope.stream());
}

}  // namespace

Error integer_product(const aoti::ProductCall& call, const DeviceScope& scope) {
  IntegerProduct p{};
  p.out = view_of(call.out);
  p.a = view_of(call.a);
  p.b = view_of(call.b);
  if (call.c) p.c = view_of(*call.c, &p.out);
  p.alpha = static_cast<int64_t>(call.alpha);
  p.beta = static_cast<int64_t>(call.beta);
  if (call.a.dtype() == DType::Char && call.out.dtype() == DType::Int) {
    Error error = run_on_tensor_cores(p, scope);
    if (error != Error::NotSupported && error != Error::NotFound) return error;
    return launch<int8_t, int32_t>(p, scope.stream());
  }
  if (call.a.dtype() == call.out.dtype()) {
    switch (call.out.dtype()) {
      case DType::Byte:
        return launch<uint8_t, uint8_t>(p, scope.stream());
      case DType::Char:
        return launch<int8_t, int8_t>(p, scope.stream());
      case DType::Short:
        return launch<int16_t, int16_t>(p, scope.stream());
      case DType::Int:
        return launch<int32_t, int32_t>(p, scope.stream());
      case DType::Long:
        return launch<int64_t, int64_t>(p, scope.stream());
      default:
        break;
    }
  }
  return Error::InvalidType;
}

}  // namespace pteron::cuda
