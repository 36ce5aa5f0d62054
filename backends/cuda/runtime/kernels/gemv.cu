#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/early_launch.cuh"
#include "pteron/backends/cuda/runtime/kernels/gemv.h"

namespace pteron::cuda {
namespace {

constexpr int kWarps = 8;  // per block, one per column
constexpr int kUnroll = 4;

struct Vectors {
  const void* a;
  const void* b;
  const void* c;     // null: none
  const void* bias;  // null: none
  void* out;
  int64_t n, k, b_column;    // elements between columns of b
  int64_t c_step, out_step;  // elements between neighbours in a row
  int64_t a_batch, b_batch, c_batch, out_batch;
  double alpha, beta;
};

// A 16-byte vector of elements.
template <typename T>
struct alignas(16) Pack {
  T items[16 / sizeof(T)];
};

template <typename T, typename Sum>
__global__ void gemv_kernel(__grid_constant__ const Vectors v) {
  constexpr int kItems = 16 / sizeof(T);
  const int lane = threadIdx.x % 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t batch = blockIdx.y;
  const auto* a = reinterpret_cast<const Pack<T>*>(static_cast<const T*>(v.a) + batch * v.a_batch);
  const auto* b = reinterpret_cast<const Pack<T>*>(static_cast<const T*>(v.b) + batch * v.b_batch +
                                                   column * v.b_column);
  const int64_t packs = v.k / kItems;
  if (column < v.n) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (lane + u * 32 < packs) prefetch(b + lane + u * 32);
    }
  }
  wait_for_kernels_before();
  if (column >= v.n) return;  // the whole warp
  Sum sum = 0;
  const auto add = [&](const Pack<T>& x, const Pack<T>& y) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      sum += static_cast<Sum>(x.items[i]) * static_cast<Sum>(y.items[i]);
    }
  };
  int64_t p = lane;
  for (; p + (kUnroll - 1) * 32 < packs; p += kUnroll * 32) {
    Pack<T> x[kUnroll], y[kUnroll];  // all loads before the first use
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      y[u] = b[p + u * 32];
      x[u] = a[p + u * 32];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add(x[u], y[u]);
  }
  for (; p < packs; p += 32) add(a[p], b[p]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane != 0) return;
  sum *= static_cast<Sum>(v.alpha);
  if (v.c) {
    const T c = static_cast<const T*>(v.c)[batch * v.c_batch + column * v.c_step];
    sum += static_cast<Sum>(v.beta) * static_cast<Sum>(c);
  }
  if (v.bias) sum += static_cast<Sum>(static_cast<const T*>(v.bias)[column]);
  static_cast<T*>(v.out)[batch * v.out_batch + column * v.out_step] = static_cast<T>(sum);
}

template <typename T, typename Sum>
void launch(const Vectors& v, int64_t batch, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((v.n + kWarps - 1) / kWarps), static_cast<unsigned>(batch));
  launch_early(gemv_kernel<T, Sum>, grid, kWarps * 32, 0, stream, v);
}

// Stride of the elements of a one-row matrix.
int64_t step_of(const GemmMatrix& row) {
  return row.layout.transposed ? row.layout.leading_dimension : 1;
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

bool is_gemv(const GemmProblem& p) {
  // Fewer multiplications are fast anywhere.
  constexpr int64_t kLeastDepth = 64, kMaxBatch = 65535;
  if (p.m != 1 || p.k < kLeastDepth || p.n < 2 || p.batch > kMaxBatch) return false;
  if (!p.b.layout.transposed || step_of(p.a) != 1) return false;
  const int64_t items = p.dtype == ScalarType::Double ? 2 : p.dtype == ScalarType::Float ? 4 : 8;
  const bool batched = p.batch > 1;
  return p.k % items == 0 && p.b.layout.leading_dimension % items == 0 && is_aligned(p.a.data) &&
         is_aligned(p.b.data) &&
         (!batched || (p.a.batch_stride % items == 0 && p.b.batch_stride % items == 0));
}

Error gemv(const GemmProblem& p, cudaStream_t stream) {
  Vectors v{};
  v.a = p.a.data;
  v.b = p.b.data;
  v.c = p.beta != 0.0 ? p.c.data : nullptr;
  v.bias = p.bias;
  v.out = const_cast<void*>(p.out.data);
  v.n = p.n;
  v.k = p.k;
  v.b_column = p.b.layout.leading_dimension;
  v.c_step = step_of(p.c);
  v.out_step = step_of(p.out);
  v.a_batch = p.a.batch_stride;
  v.b_batch = p.b.batch_stride;
  v.c_batch = p.c.batch_stride;
  v.out_batch = p.out.batch_stride;
  v.alpha = p.alpha;
  v.beta = p.beta;
  switch (p.dtype) {
    case ScalarType::Half:
      launch<__half, float>(v, p.batch, stream);
      break;
    case ScalarType::BFloat16:
      launch<__nv_bfloat16, float>(v, p.batch, stream);
      break;
    case ScalarType::Float:
      launch<float, float>(v, p.batch, stream);
      break;
    default:
      launch<double, double>(v, p.batch, stream);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching a GEMV");
  return Error::Ok;
}

}  // namespace pteron::cuda
