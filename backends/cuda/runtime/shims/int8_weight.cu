// int8 weight-only GEMM with a scale per output channel, accumulated in float32 in a fixed order.
#include <algorithm>

#include "pteron/backends/aoti/ops/product/product.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

constexpr int kWarps = 8;  // per block, one per row of the weight
constexpr int kPack = 4;   // elements per load

// Kernel arguments, of Int8WeightCall.
template <typename T>
struct Operands {
  const T* x;
  const int8_t* weight;
  const T* scales;
  T* out;
  int64_t m, n, k;
};

// A warp processes one row of the weight and kRows rows of x. Past the end the last row of x is
// read again.
template <typename T, int kItems, int kRows>
__global__ void int8_weight_kernel(__grid_constant__ const Operands<T> p) {
  const int lane = threadIdx.x % 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (column >= p.n) return;  // the whole warp
  const int64_t packs = p.k / kItems;
  const auto* weight = reinterpret_cast<const Pack<int8_t, kItems>*>(p.weight) + column * packs;
  const auto* x = reinterpret_cast<const Pack<T, kItems>*>(p.x);
  const float scale = static_cast<float>(p.scales[column]);
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kRows; first < p.m;
       first += static_cast<int64_t>(gridDim.y) * kRows) {
    float sums[kRows] = {};
    for (int64_t l = lane; l < packs; l += 32) {
      const Pack<int8_t, kItems> w = weight[l];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Pack<T, kItems> v = x[min(first + r, p.m - 1) * packs + l];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          sums[r] += static_cast<float>(v.items[i]) * static_cast<float>(w.items[i]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int step = 16; step > 0; step /= 2) sums[r] += __shfl_xor_sync(~0u, sums[r], step);
      if (lane == 0 && first + r < p.m) {
        p.out[(first + r) * p.n + column] = static_cast<T>(sums[r] * scale);
      }
    }
  }
}

template <typename T, int kItems>
void launch_packed(const Operands<T>& p, cudaStream_t stream) {
  constexpr int64_t kMaxBlocksDown = 65535;
  const auto across = static_cast<unsigned>((p.n + kWarps - 1) / kWarps);
  if (p.m == 1) {
    int8_weight_kernel<T, kItems, 1><<<across, kWarps * 32, 0, stream>>>(p);
    return;
  }
  const auto down = static_cast<unsigned>(std::min((p.m + 7) / 8, kMaxBlocksDown));
  int8_weight_kernel<T, kItems, 8><<<dim3(across, down), kWarps * 32, 0, stream>>>(p);
}

bool is_aligned(const void* data, size_t nbytes) {
  return reinterpret_cast<uintptr_t>(data) % nbytes == 0;
}

template <typename T>
Error launch(const aoti::Int8WeightCall& call, cudaStream_t stream) {
  const Operands<T> p{call.x.data_as<const T>(),
                      call.weight.data_as<const int8_t>(),
                      call.scales.data_as<const T>(),
                      call.out.data_as<T>(),
                      call.out.size(0),
                      call.out.size(1),
                      call.x.size(1)};
  if (p.k % kPack == 0 && is_aligned(p.weight, kPack) && is_aligned(p.x, kPack * sizeof(T))) {
    launch_packed<T, kPack>(p, stream);
  } else {
    launch_packed<T, 1>(p, stream);
  }
  return launched("launching an int8 weight-only GEMM");
}

}  // namespace

Error int8_weight(const aoti::Int8WeightCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  switch (call.x.dtype()) {
    case DType::Half:
      return launch<__half>(call, scope.stream());
    case DType::BFloat16:
      return launch<__nv_bfloat16>(call, scope.stream());
    case DType::Float:
      return launch<float>(call, scope.stream());
    default:
      return make_error(Error::InvalidType, "found %s, expected float16, bfloat16 or float32",
                        slim::name_of(call.x.dtype()));
  }
}

}  // namespace pteron::cuda
