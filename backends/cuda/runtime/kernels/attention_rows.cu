#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/attention.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kItems = 8;   // of a row of q, k or v, in one thread

// Keys of a round; those of the next are loaded meanwhile.
template <typename T, int kRows>
constexpr int kUnroll = sizeof(T) == 2 && kRows == 4 ? 4 : 2;

// Blocks at a time for which a processor has registers.
template <int kRows>
constexpr int kBlocks = kRows == 1 ? 4 : 2;

constexpr float kNone = -INFINITY;

// What the kernels take: rows are the queries of the heads that share a key.
struct Rows {
  Attention a;
  int group;       // heads that share a key
  int rows;        // of one key head
  int row_blocks;  // of kRows rows each, for one key head
  int split;       // keys of one block
  int splits;
  bool packed;  // whether items lie in aligned packs
  // With several splits, for each row: maximum, sum, and the weighted sum of values, of each split.
  float* partial;
};

__host__ __device__ inline int64_t partial_size(const Attention& a) { return a.value_dim + 2; }

__device__ inline float exponential(float x) { return exp2f(x * 1.44269504f); }

template <typename T>
struct alignas(16) Pack {
  T items[16 / sizeof(T)];
};

// kItems of a row of `size`, from `first` on, those past its end as 0.
template <typename T>
struct Items {
  static constexpr int kPack = 16 / sizeof(T);
  Pack<T> packs[kItems / kPack];

  __device__ float operator[](int i) const {
    return static_cast<float>(packs[i / kPack].items[i % kPack]);
  }
  __device__ void load(const T* row, int64_t stride, int first, int size, bool packed) {
    if (packed) {
#pragma unroll
      for (int p = 0; p < kItems / kPack; ++p) {
        const int at = first + p * kPack;
        packs[p] = at < size ? *reinterpret_cast<const Pack<T>*>(row + at) : Pack<T>{};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        packs[i / kPack].items[i % kPack] =
            first + i < size ? row[(first + i) * stride] : static_cast<T>(0.0f);
      }
    }
  }
};

// What threads load for one round.
template <typename T, int kRows>
struct Round {
  Items<T> key[kUnroll<T, kRows>], value[kUnroll<T, kRows>];
  T bias[kUnroll<T, kRows>][kRows];
};

// Softmax over some keys, as far as it has come.
struct Softmax {
  float maximum = kNone;
  float sum = 0;
  float values[kItems] = {};

  // What exponents are taken relative to: any number where there is no key yet.
  __device__ static float base(float maximum) { return maximum == kNone ? 0.0f : maximum; }

  __device__ void rescale(float to) {
    const float factor = exponential(maximum - base(to));
    sum *= factor;
#pragma unroll
    for (int i = 0; i < kItems; ++i) values[i] *= factor;
    maximum = to;
  }
  __device__ void merge(float other_maximum, float other_sum, const float (&other)[kItems]) {
    const float to = fmaxf(maximum, other_maximum), factor = exponential(other_maximum - base(to));
    rescale(to);
    sum += factor * other_sum;
#pragma unroll
    for (int i = 0; i < kItems; ++i) values[i] += factor * other[i];
  }
};

// A block has kRows rows of one key head and a range of keys. kLanes threads have a key at a time,
// kItems items each; the keys go round these teams.
template <typename T, int kLanes, int kRows>
__global__ void __launch_bounds__(kWarps * 32, kBlocks<kRows>)
    rows_kernel(__grid_constant__ const Rows r) {
  constexpr int kTeams = kWarps * 32 / kLanes;
  const Attention& a = r.a;
  const int block = blockIdx.x, head_block = block / r.row_blocks;
  const int first_row = (block - head_block * r.row_blocks) * kRows, rows = r.rows;
  const int kv_heads = static_cast<int>(a.kv_heads), keys = static_cast<int>(a.keys);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int lane = threadIdx.x % kLanes, team = threadIdx.x / kLanes, first = lane * kItems;
  const auto* q = static_cast<const T*>(a.q) + batch * a.q_strides[0];
  const auto* k = static_cast<const T*>(a.k) + batch * a.k_strides[0] + kv_head * a.k_strides[1];
  const auto* v = static_cast<const T*>(a.v) + batch * a.v_strides[0] + kv_head * a.v_strides[1];
  const auto* bias = static_cast<const T*>(a.bias);

  Items<T> query[kRows];
  Softmax state[kRows];
  int64_t bias_row[kRows];
  int limit[kRows];  // keys below the limit count
  int end = 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = min(first_row + i, rows - 1), at = row / r.group;
    const int head = kv_head * r.group + row - at * r.group;
    query[i].load(q + head * a.q_strides[1] + at * a.q_strides[2], a.q_strides[3], first,
                  static_cast<int>(a.dim), r.packed);
    bias_row[i] = batch * a.bias_strides[0] + head * a.bias_strides[1] + at * a.bias_strides[2];
    limit[i] = a.causal ? min(at + 1, keys) : keys;
    end = max(end, limit[i]);
  }
  const int begin = blockIdx.y * r.split;
  end = min(end, begin + r.split);

  const auto load = [&](int base) {
    Round<T, kRows> loaded;
#pragma unroll
    for (int u = 0; u < kUnroll<T, kRows>; ++u) {
      const int at = min(base + u * kTeams, end - 1);
      loaded.key[u].load(k + at * a.k_strides[2], a.k_strides[3], first, static_cast<int>(a.dim),
                         r.packed);
      loaded.value[u].load(v + at * a.v_strides[2], a.v_strides[3], first,
                           static_cast<int>(a.value_dim), r.packed);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        loaded.bias[u][i] =
            bias ? bias[bias_row[i] + at * a.bias_strides[3]] : static_cast<T>(0.0f);
      }
    }
    return loaded;
  };

  // All threads of a warp take part in every round, since they exchange sums.
  constexpr int kKeys = kTeams * kUnroll<T, kRows>;
  Round<T, kRows> next;
  if (begin < end) next = load(begin + team);
  for (int round = begin; round < end; round += kKeys) {
    const int base = round + team;
    const Round<T, kRows> now = next;
    if (round + kKeys < end) next = load(base + kKeys);
    float score[kUnroll<T, kRows>][kRows];
#pragma unroll
    for (int u = 0; u < kUnroll<T, kRows>; ++u) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kItems; ++j) sum += query[i][j] * now.key[u][j];
        score[u][i] = sum;
      }
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int u = 0; u < kUnroll<T, kRows>; ++u) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          score[u][i] += __shfl_xor_sync(~0u, score[u][i], offset);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float maximum = state[i].maximum;
#pragma unroll
      for (int u = 0; u < kUnroll<T, kRows>; ++u) {
        const int at = base + u * kTeams;
        score[u][i] = at < end && at < limit[i] ? score[u][i] * static_cast<float>(a.scale) +
                                                      static_cast<float>(now.bias[u][i])
                                                : kNone;
        maximum = fmaxf(maximum, score[u][i]);
      }
      state[i].rescale(maximum);
#pragma unroll
      for (int u = 0; u < kUnroll<T, kRows>; ++u) {
        const float weight = exponential(score[u][i] - Softmax::base(maximum));
        state[i].sum += weight;
#pragma unroll
        for (int j = 0; j < kItems; ++j) state[i].values[j] += weight * now.value[u][j];
      }
    }
  }

  // The teams of a warp, then the warps.
  __shared__ float shared[kWarps][kRows][kLanes][kItems + 2];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int offset = 16; offset >= kLanes; offset /= 2) {
      float other[kItems];
      const float maximum = __shfl_xor_sync(~0u, state[i].maximum, offset),
                  sum = __shfl_xor_sync(~0u, state[i].sum, offset);
#pragma unroll
      for (int j = 0; j < kItems; ++j) {
        other[j] = __shfl_xor_sync(~0u, state[i].values[j], offset);
      }
      state[i].merge(maximum, sum, other);
    }
    if (threadIdx.x % 32 < kLanes) {
      float* mine = shared[threadIdx.x / 32][i][lane];
      mine[kItems] = state[i].maximum;
      mine[kItems + 1] = state[i].sum;
#pragma unroll
      for (int j = 0; j < kItems; ++j) mine[j] = state[i].values[j];
    }
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  // Warp 0: its teams share the rows.
  for (int i = threadIdx.x / kLanes; i < kRows; i += 32 / kLanes) {
    const int row = first_row + i;
    if (row >= rows) break;
    Softmax total;
    for (int w = 0; w < kWarps; ++w) {
      const float* theirs = shared[w][i][lane];
      float other[kItems];
#pragma unroll
      for (int j = 0; j < kItems; ++j) other[j] = theirs[j];
      total.merge(theirs[kItems], theirs[kItems + 1], other);
    }
    if (r.splits > 1) {
      const int64_t line = head_block * rows + row;
      float* out = r.partial + (line * r.splits + blockIdx.y) * partial_size(a);
      if (lane == 0) {
        out[0] = total.maximum;
        out[1] = total.sum;
      }
#pragma unroll
      for (int j = 0; j < kItems; ++j) {
        if (first + j < a.value_dim) out[2 + first + j] = total.values[j];
      }
    } else {
      const int at = row / r.group, head = kv_head * r.group + row - at * r.group;
      auto* out = static_cast<T*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
                  at * a.out_strides[2];
      const float factor = total.sum > 0 ? 1.0f / total.sum : 0.0f;
#pragma unroll
      for (int j = 0; j < kItems; ++j) {
        if (first + j < a.value_dim) {
          out[(first + j) * a.out_strides[3]] = static_cast<T>(total.values[j] * factor);
        }
      }
    }
  }
}

constexpr int kMostSplits = 128;
constexpr int kCombineThreads = 128;

// One block for each row; its threads have an item of the value each.
template <typename T>
__global__ void __launch_bounds__(kCombineThreads) combine_kernel(__grid_constant__ const Rows r) {
  const Attention& a = r.a;
  const int line = blockIdx.x, head_block = line / r.rows, row = line - head_block * r.rows;
  const int kv_heads = static_cast<int>(a.kv_heads);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int step = static_cast<int>(partial_size(a));
  const float* partial = r.partial + int64_t{line} * r.splits * step;
  // What each split counts for; no more of them than threads.
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
  const float weight = exponential(mine - Softmax::base(maximum));
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
    out[i * a.out_strides[3]] = static_cast<T>(sum > 0 ? value / sum : 0.0f);
  }
}

template <typename T, int kLanes, int kRows>
Error launch(Rows r, int device, cudaStream_t stream) {
  const Attention& a = r.a;
  const int64_t lines = a.batch * a.kv_heads;
  r.row_blocks = (r.rows + kRows - 1) / kRows;
  // As many blocks as run at a time, none with less than two rounds.
  int processors = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
      "asking for the number of processors");
  constexpr int64_t kLeast = kWarps * 32 / kLanes * kUnroll<T, kRows> * 2;
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
  rows_kernel<T, kLanes, kRows><<<grid, kWarps * 32, 0, stream>>>(r);
  if (r.splits > 1) {
    combine_kernel<T><<<static_cast<unsigned>(lines * r.rows), kCombineThreads, 0, stream>>>(r);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching attention");
  return Error::Ok;
}

template <typename T, int kLanes>
Error launch(const Rows& r, int device, cudaStream_t stream) {
  if (r.rows == 1) return launch<T, kLanes, 1>(r, device, stream);
  if (r.rows <= 4) return launch<T, kLanes, 4>(r, device, stream);
  return launch<T, kLanes, 8>(r, device, stream);
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
  r.packed = a.dim % kPack == 0 && a.value_dim % kPack == 0 && fits(a.q, a.q_strides) &&
             fits(a.k, a.k_strides) && fits(a.v, a.v_strides);
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
