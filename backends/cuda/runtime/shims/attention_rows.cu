#include <algorithm>
#include <cmath>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/attention.h"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

// The loop is not unrolled: a block runs it only a few times, and instruction fetch dominates.
constexpr int kWarps = 4;
constexpr int kItems = 8;   // of a row of q, k or v, in one thread
constexpr int kUnroll = 2;  // keys per thread and iteration; the next ones are prefetched
constexpr float kNone = -INFINITY;
constexpr float kLog2E = 1.44269504f;  // exponents are base 2

// Blocks per SM, by registers.
template <int kRows>
constexpr int kBlocks = kRows == 1 ? 4 : 2;

// Kernel arguments: rows are the queries of the heads that share a key.
struct Rows {
  Attention a;
  int group;       // heads that share a key
  int rows;        // of one key head
  int row_blocks;  // of kRows rows each, for one key head
  int split;       // keys of one block
  int splits;
  // With several splits, for each row and split: maximum, sum, and the weighted sum of values.
  float* partial;
};

__host__ __device__ inline int64_t partial_size(const Attention& a) { return a.value_dim + 2; }

// The maximum subtracted from exponents; arbitrary before the first key.
__device__ inline float base_of(float maximum) { return maximum == kNone ? 0.0f : maximum; }

// 2 to the power of x, in one instruction; 0 where it would be denormal.
__device__ inline float power_of_2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Loads kItems elements of a row of `size`, from `first` on; those past its end are 0. kPacked:
// aligned vector loads.
template <typename T, bool kPacked>
struct Items {
  static constexpr int kPack = 16 / sizeof(T);
  Pack<T> packs[kItems / kPack];

  __device__ float operator[](int i) const {
    return static_cast<float>(packs[i / kPack].items[i % kPack]);
  }
  __device__ void load(const T* row, int64_t stride, int first, int size) {
#pragma unroll
    for (int p = 0; p < kItems / kPack; ++p) {
      const int at = first + p * kPack;
      if constexpr (kPacked) {
        packs[p] = at < size ? *reinterpret_cast<const Pack<T>*>(row + at) : Pack<T>{};
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          packs[p].items[i] = at + i < size ? row[(at + i) * stride] : static_cast<T>(0.0f);
        }
      }
    }
  }
};

// Data that a thread loads for one iteration.
template <typename T, int kRows, bool kPacked>
struct Round {
  Items<T, kPacked> key[kUnroll], value[kUnroll];
  T bias[kUnroll][kRows];
};

// A block processes kRows rows of one key head and a range of keys. A group of kLanes threads
// processes one key at a time, kItems elements per thread; keys are distributed over the groups.
template <typename T, int kLanes, int kRows, bool kPacked>
__global__ void __launch_bounds__(kWarps * 32, kBlocks<kRows>)
    rows_kernel(__grid_constant__ const Rows r) {
  constexpr int kTeams = kWarps * 32 / kLanes, kKeys = kTeams * kUnroll, kWidth = kLanes * kItems;
  const Attention& a = r.a;
  const int block = blockIdx.x, head_block = block / r.row_blocks;
  const int first_row = (block - head_block * r.row_blocks) * kRows, rows = r.rows;
  const int kv_heads = static_cast<int>(a.kv_heads), keys = static_cast<int>(a.keys);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int lane = threadIdx.x % kLanes, team = threadIdx.x / kLanes, first = lane * kItems;
  const int dim = static_cast<int>(a.dim), value_dim = static_cast<int>(a.value_dim);
  const auto* q = static_cast<const T*>(a.q) + batch * a.q_strides[0];
  const auto* k = static_cast<const T*>(a.k) + batch * a.k_strides[0] + kv_head * a.k_strides[1];
  const auto* v = static_cast<const T*>(a.v) + batch * a.v_strides[0] + kv_head * a.v_strides[1];
  const T* bias[kRows];

  Items<T, kPacked> query[kRows];
  int limit[kRows];  // keys below the limit count
  int end = 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = min(first_row + i, rows - 1), at = row / r.group;
    const int head = kv_head * r.group + row - at * r.group;
    query[i].load(q + head * a.q_strides[1] + at * a.q_strides[2], a.q_strides[3], first, dim);
    bias[i] = static_cast<const T*>(a.bias) + batch * a.bias_strides[0] + head * a.bias_strides[1] +
              at * a.bias_strides[2];
    limit[i] = a.causal ? min(at + 1, keys) : keys;
    end = max(end, limit[i]);
  }
  const int begin = blockIdx.y * r.split;
  end = min(end, begin + r.split);

  const auto load = [&](int base) {
    Round<T, kRows, kPacked> loaded;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int at = min(base + u * kTeams, end - 1);
      loaded.key[u].load(k + at * a.k_strides[2], a.k_strides[3], first, dim);
      loaded.value[u].load(v + at * a.v_strides[2], a.v_strides[3], first, value_dim);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        loaded.bias[u][i] = a.bias ? bias[i][at * a.bias_strides[3]] : static_cast<T>(0.0f);
      }
    }
    return loaded;
  };

  // State of the online softmax.
  float maximum[kRows], sum[kRows] = {}, values[kRows][kItems] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) maximum[i] = kNone;
  const float scale = static_cast<float>(a.scale) * kLog2E;

  // All threads of a warp take part in every iteration, since they shuffle partial sums.
  Round<T, kRows, kPacked> next;
  if (begin < end) next = load(begin + team);
#pragma unroll 1
  for (int base = begin + team; base - team < end; base += kKeys) {
    const Round<T, kRows, kPacked> now = next;
    if (base - team + kKeys < end) next = load(base + kKeys);
    float score[kUnroll][kRows];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        score[u][i] = 0;
#pragma unroll
        for (int j = 0; j < kItems; ++j) score[u][i] += query[i][j] * now.key[u][j];
      }
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          score[u][i] += __shfl_xor_sync(~0u, score[u][i], offset);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float before = maximum[i];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int at = base + u * kTeams;
        const float shift = static_cast<float>(now.bias[u][i]) * kLog2E;
        score[u][i] = at < end && at < limit[i] ? score[u][i] * scale + shift : kNone;
        maximum[i] = fmaxf(maximum[i], score[u][i]);
      }
      const float relative = base_of(maximum[i]), factor = power_of_2(before - relative);
      sum[i] *= factor;
#pragma unroll
      for (int j = 0; j < kItems; ++j) values[i][j] *= factor;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const float weight = power_of_2(score[u][i] - relative);
        sum[i] += weight;
#pragma unroll
        for (int j = 0; j < kItems; ++j) values[i][j] += weight * now.value[u][j];
      }
    }
  }

  __shared__ float maxima[kTeams][kRows], sums[kTeams][kRows];
  __shared__ alignas(16) float shared[kTeams][kRows][kWidth];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (lane == 0) {
      maxima[team][i] = maximum[i];
      sums[team][i] = sum[i];
    }
#pragma unroll
    for (int j = 0; j < kItems; ++j) shared[team][i][first + j] = values[i][j];
  }
  __syncthreads();
#pragma unroll 1
  for (int at = threadIdx.x; at < kRows * kWidth; at += kWarps * 32) {
    const int i = at / kWidth, item = at % kWidth, row = first_row + i;
    if (row >= rows) break;
    if (item >= value_dim) continue;
    float most = kNone, total = 0, value = 0;
#pragma unroll 4
    for (int t = 0; t < kTeams; ++t) most = fmaxf(most, maxima[t][i]);
    const float relative = base_of(most);
#pragma unroll 4
    for (int t = 0; t < kTeams; ++t) {
      const float factor = power_of_2(maxima[t][i] - relative);
      total += factor * sums[t][i];
      value += factor * shared[t][i][item];
    }
    if (r.splits > 1) {
      const int64_t line = head_block * rows + row;
      float* out = r.partial + (line * r.splits + blockIdx.y) * partial_size(a);
      if (item == 0) {
        out[0] = most;
        out[1] = total;
      }
      out[2 + item] = value;
    } else {
      const int query_at = row / r.group, head = kv_head * r.group + row - query_at * r.group;
      auto* out = static_cast<T*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
                  query_at * a.out_strides[2];
      out[item * a.out_strides[3]] = static_cast<T>(total == 0 ? 0.0f : value / total);
    }
  }
}

constexpr int kMostSplits = 128;
constexpr int kCombineThreads = 128;

// One block per row; a thread per element of the value.
template <typename T>
__global__ void __launch_bounds__(kCombineThreads) combine_kernel(__grid_constant__ const Rows r) {
  const Attention& a = r.a;
  const int line = blockIdx.x, head_block = line / r.rows, row = line - head_block * r.rows;
  const int kv_heads = static_cast<int>(a.kv_heads);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int step = static_cast<int>(partial_size(a));
  const float* partial = r.partial + int64_t{line} * r.splits * step;
  // The weight of each split; at most one split per thread.
  __shared__ float weights[kMostSplits], sums[kMostSplits];
  const int split = threadIdx.x;
  const float mine = split < r.splits ? partial[split * step] : kNone;
  const float part = split < r.splits ? partial[split * step + 1] : 0.0f;
  weights[split] = mine;
  __syncthreads();
  float maximum = kNone;
#pragma unroll 8
  for (int s = 0; s < r.splits; ++s) maximum = fmaxf(maximum, weights[s]);
  __syncthreads();
  const float weight = power_of_2(mine - base_of(maximum));
  weights[split] = weight;
  sums[split] = weight * part;
  __syncthreads();
  float sum = 0;
#pragma unroll 8
  for (int s = 0; s < r.splits; ++s) sum += sums[s];
  const int at = row / r.group, head = kv_head * r.group + row - at * r.group;
  auto* out = static_cast<T*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
              at * a.out_strides[2];
  for (int i = threadIdx.x; i < a.value_dim; i += blockDim.x) {
    float value = 0;
#pragma unroll 16
    for (int s = 0; s < r.splits; ++s) value += weights[s] * partial[s * step + 2 + i];
    out[i * a.out_strides[3]] = static_cast<T>(sum == 0 ? 0.0f : value / sum);
  }
}

template <typename T, int kLanes, int kRows, bool kPacked>
Error launch(Rows r, int device, cudaStream_t stream) {
  const Attention& a = r.a;
  const int64_t lines = a.batch * a.kv_heads;
  r.row_blocks = (r.rows + kRows - 1) / kRows;
  // As many blocks as run concurrently, each with at least two iterations.
  int processors = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
      "querying the number of SMs");
  constexpr int64_t kLeast = kWarps * 32 / kLanes * kUnroll * 2;
  const int64_t wanted = (int64_t{kBlocks<kRows>} * processors) / (lines * r.row_blocks);
  const int64_t keys = std::max<int64_t>(a.keys, 1);
  const int64_t splits =
      std::clamp<int64_t>(wanted, 1, std::min<int64_t>((keys + kLeast - 1) / kLeast, kMostSplits));
  r.split = static_cast<int>((keys + splits - 1) / splits);
  r.splits = static_cast<int>((keys + r.split - 1) / r.split);
  slim::StorageRef scratch;
  if (r.splits > 1) {
    const int64_t floats = lines * r.rows * r.splits * partial_size(a);
    PTERON_ASSIGN_OR_RETURN(scratch,
                            allocate_scratch(static_cast<size_t>(floats) * sizeof(float), device));
    r.partial = static_cast<float*>(scratch->data);
  }
  const dim3 grid(static_cast<unsigned>(lines * r.row_blocks), static_cast<unsigned>(r.splits));
  rows_kernel<T, kLanes, kRows, kPacked><<<grid, kWarps * 32, 0, stream>>>(r);
  if (r.splits > 1) {
    combine_kernel<T><<<static_cast<unsigned>(lines * r.rows), kCombineThreads, 0, stream>>>(r);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching attention");
  return Error::Ok;
}

template <typename T, int kLanes>
Error launch(const Rows& r, int device, cudaStream_t stream) {
  if (r.rows == 1) return launch<T, kLanes, 1, true>(r, device, stream);
  if (r.rows <= 4) return launch<T, kLanes, 4, true>(r, device, stream);
  return launch<T, kLanes, 8, true>(r, device, stream);
}

template <typename T>
Error launch(Rows r, int device, cudaStream_t stream) {
  const Attention& a = r.a;
  const auto fits = [](const void* data, const int64_t (&strides)[4]) {
    constexpr int64_t kPack = 16 / sizeof(T);
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[3] == 1 &&
           strides[0] % kPack == 0 && strides[1] % kPack == 0 && strides[2] % kPack == 0;
  };
  constexpr int64_t kPack = 16 / sizeof(T);
  const bool packed = a.dim % kPack == 0 && a.value_dim % kPack == 0 && fits(a.q, a.q_strides) &&
                      fits(a.k, a.k_strides) && fits(a.v, a.v_strides);
  if (!packed) return launch<T, 32, 1, false>(r, device, stream);
  const int64_t widest = std::max(a.dim, a.value_dim);
  if (widest <= 64) return launch<T, 8>(r, device, stream);
  if (widest <= 128) return launch<T, 16>(r, device, stream);
  return launch<T, 32>(r, device, stream);
}

}  // namespace

Error attention_by_rows(const Attention& a, int device, cudaStream_t stream) {
  Rows r{};
  r.a = a;
  const int64_t group = a.heads / a.kv_heads, rows = group * a.queries;
  PTERON_CHECK_OR_RETURN(rows <= INT32_MAX / (a.batch * a.kv_heads) && a.keys <= INT32_MAX / 2,
                         Error::NotSupported, "attention over %lld x %lld x %lld rows, %lld keys",
                         static_cast<long long>(a.batch), static_cast<long long>(a.kv_heads),
                         static_cast<long long>(rows), static_cast<long long>(a.keys));
  r.group = static_cast<int>(group);
  r.rows = static_cast<int>(rows);
  switch (a.dtype) {
    case ScalarType::Half:
      return launch<__half>(r, device, stream);
    case ScalarType::BFloat16:
      return launch<__nv_bfloat16>(r, device, stream);
    default:
      return launch<float>(r, device, stream);
  }
}

}  // namespace pteron::cuda
