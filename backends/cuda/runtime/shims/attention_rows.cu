#include <algorithm>
#include <cmath>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/early_launch.cuh"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/attention.h"
#include "pteron/backends/cuda/runtime/shims/mma.cuh"
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

// Adds what the teams of a block have of their keys, and writes it to `out`, or to `partial` if
// there are several splits.
template <typename T, int kTeams, int kRows, int kWidth>
__device__ void add_teams(const Rows& r, int head_block, int first_row,
                          const float (&maxima)[kTeams][kRows], const float (&sums)[kTeams][kRows],
                          const float (&values)[kTeams][kRows][kWidth]) {
  const Attention& a = r.a;
  const int kv_heads = static_cast<int>(a.kv_heads), batch = head_block / kv_heads;
#pragma unroll 1
  for (int at = threadIdx.x; at < kRows * kWidth; at += kWarps * 32) {
    const int i = at / kWidth, item = at % kWidth, row = first_row + i;
    if (row >= r.rows) break;
    if (item >= a.value_dim) continue;
    float most = kNone, total = 0, value = 0;
#pragma unroll 4
    for (int t = 0; t < kTeams; ++t) most = fmaxf(most, maxima[t][i]);
    const float relative = base_of(most);
#pragma unroll 4
    for (int t = 0; t < kTeams; ++t) {
      const float factor = power_of_2(maxima[t][i] - relative);
      total += factor * sums[t][i];
      value += factor * values[t][i][item];
    }
    if (r.splits > 1) {
      const int64_t line = static_cast<int64_t>(head_block) * r.rows + row;
      float* out = r.partial + (line * r.splits + blockIdx.y) * partial_size(a);
      if (item == 0) {
        out[0] = most;
        out[1] = total;
      }
      out[2 + item] = value;
    } else {
      const int query = row / r.group,
                head = (head_block - batch * kv_heads) * r.group + row % r.group;
      auto* out = static_cast<T*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
                  query * a.out_strides[2];
      out[item * a.out_strides[3]] = static_cast<T>(total == 0 ? 0.0f : value / total);
    }
  }
}

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
  wait_for_kernels_before();
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
  // Keys and values are not read if the mask hides all of them from all rows.
  if (a.bias) {
    bool is_seen = false;
    for (int at = begin + static_cast<int>(threadIdx.x); at < end; at += kWarps * 32) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        is_seen |= static_cast<float>(bias[i][at * a.bias_strides[3]]) != kNone;
      }
    }
    if (!__syncthreads_or(is_seen)) end = begin;
  }

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
  add_teams<T>(r, head_block, first_row, maxima, sums, shared);
}

// The same on tensor cores, which takes far fewer instructions: most of the time of the kernel
// above is their fetching. A warp processes 16 keys at a time, 8 * kHalves rows are the rows of
// mma.m16n8k16; kDims: 64 or 128. Any order of the summed index is as good, as long as both
// operands have the same: a thread's pairs are consecutive elements of a query or key, and its
// columns of the second product consecutive elements of a value, so that it reads 16 bytes at a
// time.
template <typename T, int kDims, int kHalves>
__global__ void __launch_bounds__(kWarps * 32) mma_rows_kernel(__grid_constant__ const Rows r) {
  wait_for_kernels_before();
  constexpr int kRows = 8 * kHalves, kKeys = 16, kLoads = kDims / 32, kColumns = kDims / 64;
  const Attention& a = r.a;
  const int block = blockIdx.x, head_block = block / r.row_blocks;
  const int first_row = (block - head_block * r.row_blocks) * kRows;
  const int kv_heads = static_cast<int>(a.kv_heads), keys = static_cast<int>(a.keys);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int dim = static_cast<int>(a.dim), value_dim = static_cast<int>(a.value_dim);
  const auto* k = static_cast<const T*>(a.k) + batch * a.k_strides[0] + kv_head * a.k_strides[1];
  const auto* v = static_cast<const T*>(a.v) + batch * a.v_strides[0] + kv_head * a.v_strides[1];
  const auto load = [](const T* from, int first, int size) {
    return first < size ? *reinterpret_cast<const uint4*>(from + first) : uint4{};
  };

  uint4 query[2][kLoads] = {};
  const T* bias[kHalves];
  int limit[kHalves];  // keys below the limit count
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    const int row = min(first_row + 8 * h + g, r.rows - 1), at = row / r.group;
    const int head = kv_head * r.group + row - at * r.group;
    const T* q = static_cast<const T*>(a.q) + batch * a.q_strides[0] + head * a.q_strides[1] +
                 at * a.q_strides[2];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) query[h][i] = load(q, 8 * (t + 4 * i), dim);
    bias[h] = static_cast<const T*>(a.bias) + batch * a.bias_strides[0] + head * a.bias_strides[1] +
              at * a.bias_strides[2];
    limit[h] = a.causal ? min(at + 1, keys) : keys;
  }
  const int last = min(first_row + kRows, r.rows) - 1;
  const int end = a.causal ? min(last / r.group + 1, keys) : keys;
  // Splits take keys in turns, so that each has its part of those that the mask does not hide.
  const int begin = (blockIdx.y * kWarps + warp) * kKeys, step = r.splits * kWarps * kKeys;

  float maximum[kHalves], sum[kHalves] = {}, values[kColumns][8][4] = {};
#pragma unroll
  for (int h = 0; h < kHalves; ++h) maximum[h] = kNone;
  const float scale = static_cast<float>(a.scale) * kLog2E;
  // The mask of keys base + 8 * u + 2 * t + e, read while the keys before them are processed.
  struct Mask {
    T of[2][kHalves][2];
  };
  const auto read_mask = [&](int base) {
    Mask mask;
#pragma unroll
    for (int i = 0; i < 4 * kHalves; ++i) {
      const int u = i % 2, e = i / 2 % 2, h = i / 4;
      const int at = min(base + 8 * u + 2 * t + e, end - 1);
      mask.of[u][h][e] = a.bias ? bias[h][at * a.bias_strides[3]] : static_cast<T>(0.0f);
    }
    return mask;
  };
  Mask next = begin < end ? read_mask(begin) : Mask{};
#pragma unroll 1
  for (int base = begin; base < end; base += step) {
    const Mask mask = next;
    if (base + step < end) next = read_mask(base + step);
    // Keys are not read if it hides all of them.
    float shift[2][kHalves][2];
    bool is_seen = false;
#pragma unroll
    for (int i = 0; i < 4 * kHalves; ++i) {
      const int u = i % 2, e = i / 2 % 2, h = i / 4;
      shift[u][h][e] = static_cast<float>(mask.of[u][h][e]);
      is_seen |= shift[u][h][e] != kNone;
    }
    if (!__any_sync(~0u, is_seen)) continue;
    uint4 key[2][kLoads], value[4][kColumns];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const T* from = k + min(base + 8 * u + g, end - 1) * a.k_strides[2];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) key[u][i] = load(from, 8 * (t + 4 * i), dim);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const T* from = v + min(base + i / 2 * 8 + 2 * t + i % 2, end - 1) * a.v_strides[2];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) value[i][c] = load(from, 8 * (g + 8 * c), value_dim);
    }

    float score[2][4] = {};
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const uint4 &q = query[0][i], &below = query[1][i], &now = key[u][i];
        mma<T>(score[u], {q.x, below.x, q.y, below.y}, {now.x, now.y});
        mma<T>(score[u], {q.z, below.z, q.w, below.w}, {now.z, now.w});
      }
    }
    uint32_t weights[4] = {};
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const float before = maximum[h];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = base + 8 * u + 2 * t + e;
          float& x = score[u][2 * h + e];
          x = at < end && at < limit[h] ? x * scale + shift[u][h][e] * kLog2E : kNone;
          maximum[h] = fmaxf(maximum[h], x);
        }
      }
      maximum[h] = fmaxf(maximum[h], __shfl_xor_sync(~0u, maximum[h], 1));
      maximum[h] = fmaxf(maximum[h], __shfl_xor_sync(~0u, maximum[h], 2));
      const float relative = base_of(maximum[h]), factor = power_of_2(before - relative);
      sum[h] *= factor;
#pragma unroll
      for (int i = 0; i < kColumns * 8; ++i) {
        values[i / 8][i % 8][2 * h] *= factor;
        values[i / 8][i % 8][2 * h + 1] *= factor;
      }
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const float low = power_of_2(score[u][2 * h] - relative);
        const float high = power_of_2(score[u][2 * h + 1] - relative);
        sum[h] += low + high;
        weights[2 * u + h] = pair_of<T>(low, high);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const auto word = [&](int i) {
          return reinterpret_cast<const uint32_t*>(&value[i][c])[j / 2];
        };
        const unsigned order = j % 2 ? 0x7632 : 0x5410;
        mma<T>(values[c][j], weights,
               {__byte_perm(word(0), word(1), order), __byte_perm(word(2), word(3), order)});
      }
    }
  }

  __shared__ float maxima[kWarps][kRows], sums[kWarps][kRows];
  __shared__ alignas(16) float shared[kWarps][kRows][kDims + 4];  // rows in different banks
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    maxima[warp][8 * h + g] = maximum[h];
    sums[warp][8 * h + g] = sum[h];
#pragma unroll
    for (int i = 0; i < kColumns * 4; ++i) {
      const int c = i / 4, e = i / 2 % 2, j = i % 2 * 4, x = 2 * h + e;
      *reinterpret_cast<float4*>(&shared[warp][8 * h + g][(2 * t + e + 8 * c) * 8 + j]) = {
          values[c][j][x], values[c][j + 1][x], values[c][j + 2][x], values[c][j + 3][x]};
    }
  }
  __syncthreads();
  add_teams<T>(r, head_block, first_row, maxima, sums, shared);
}

constexpr int kMostSplits = 128;
constexpr int kCombineWarps = 16;
constexpr int kMostItems = 256;  // of a value

// One block per row. A warp adds every kCombineWarps-th split; a thread of it reads elements of all
// their values at a time, the first ones before it knows the weights.
template <typename T>
__global__ void __launch_bounds__(kCombineWarps * 32)
    combine_kernel(__grid_constant__ const Rows r) {
  wait_for_kernels_before();
  constexpr int kEach = kMostSplits / kCombineWarps;
  const Attention& a = r.a;
  const int line = blockIdx.x, head_block = line / r.rows, row = line - head_block * r.rows;
  const int kv_heads = static_cast<int>(a.kv_heads), size = static_cast<int>(a.value_dim);
  const int batch = head_block / kv_heads, kv_head = head_block - batch * kv_heads;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int step = static_cast<int>(partial_size(a));
  const float* partial = r.partial + int64_t{line} * r.splits * step;
  float maximum[kEach], sums[kEach], values[2][kEach];
  const auto read = [&](float (&to)[kEach], int at, float otherwise) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int split = warp + i * kCombineWarps;
      to[i] = split < r.splits && at < step ? partial[split * step + at] : otherwise;
    }
  };
  read(maximum, 0, kNone);
  read(sums, 1, 0);
  read(values[0], 2 + lane, 0);
  read(values[1], 2 + lane + 32, 0);

  __shared__ float maxima[kCombineWarps], totals[kCombineWarps];
  __shared__ float shared[kCombineWarps][kMostItems];
  float most = kNone, total = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) most = fmaxf(most, maximum[i]);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    maximum[i] = power_of_2(maximum[i] - base_of(most));  // the weight
    total += maximum[i] * sums[i];
  }
  if (lane == 0) {
    maxima[warp] = most;
    totals[warp] = total;
  }
  for (int first = lane;;) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float value = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) value += maximum[i] * values[half][i];
      shared[warp][first + 32 * half] = value;
    }
    first += 64;
    if (first - lane >= size) break;
    read(values[0], 2 + first, 0);
    read(values[1], 2 + first + 32, 0);
  }
  __syncthreads();
  const int item = threadIdx.x;
  if (item >= size) return;
  most = kNone;
#pragma unroll
  for (int w = 0; w < kCombineWarps; ++w) most = fmaxf(most, maxima[w]);
  total = 0;
  float value = 0;
#pragma unroll
  for (int w = 0; w < kCombineWarps; ++w) {
    const float weight = power_of_2(maxima[w] - base_of(most));
    total += weight * totals[w];
    value += weight * shared[w][item];
  }
  const int at = row / r.group, head = kv_head * r.group + row - at * r.group;
  auto* out = static_cast<T*>(a.out) + batch * a.out_strides[0] + head * a.out_strides[1] +
              at * a.out_strides[2];
  out[item * a.out_strides[3]] = static_cast<T>(total == 0 ? 0.0f : value / total);
}

// kernel: of a block that processes `rows` rows and `keys` keys at a time; `blocks` fit an SM.
template <typename T>
Error launch(void (*kernel)(const Rows), int rows, int keys, int blocks, Rows r, int device,
             cudaStream_t stream) {
  const Attention& a = r.a;
  const int64_t lines = a.batch * a.kv_heads;
  r.row_blocks = (r.rows + rows - 1) / rows;
  // As many blocks as run concurrently.
  int processors = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
      "querying the number of SMs");
  const int64_t wanted = (int64_t{blocks} * processors) / (lines * r.row_blocks);
  const int64_t all = std::max<int64_t>(a.keys, 1);
  const int64_t splits =
      std::clamp<int64_t>(wanted, 1, std::min<int64_t>((all + keys - 1) / keys, kMostSplits));
  r.split = static_cast<int>((all + splits - 1) / splits);
  r.splits = static_cast<int>((all + r.split - 1) / r.split);
  slim::StorageRef scratch;
  if (r.splits > 1) {
    const int64_t floats = lines * r.rows * r.splits * partial_size(a);
    PTERON_ASSIGN_OR_RETURN(scratch,
                            allocate_scratch(static_cast<size_t>(floats) * sizeof(float), device));
    r.partial = static_cast<float*>(scratch->data);
  }
  const dim3 grid(static_cast<unsigned>(lines * r.row_blocks), static_cast<unsigned>(r.splits));
  launch_early(kernel, grid, kWarps * 32, 0, stream, r);
  if (r.splits > 1) {
    launch_early(combine_kernel<T>, static_cast<unsigned>(lines * r.rows), kCombineWarps * 32, 0,
                 stream, r);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "launching attention");
  return Error::Ok;
}

template <typename T, int kLanes, int kRows, bool kPacked>
Error launch(const Rows& r, int device, cudaStream_t stream) {
  constexpr int kLeast = kWarps * 32 / kLanes * kUnroll * 2;  // two iterations
  return launch<T>(rows_kernel<T, kLanes, kRows, kPacked>, kRows, kLeast, kBlocks<kRows>, r, device,
                   stream);
}

template <typename T, int kLanes>
Error launch(const Rows& r, int device, cudaStream_t stream) {
  if (r.rows == 1) return launch<T, kLanes, 1, true>(r, device, stream);
  if (r.rows <= 4) return launch<T, kLanes, 4, true>(r, device, stream);
  return launch<T, kLanes, 8, true>(r, device, stream);
}

template <typename T, int kDims>
Error launch_mma(const Rows& r, int device, cudaStream_t stream) {
  constexpr int kLeast = kWarps * 16, kBlocks = 4;
  if (r.rows <= 8) {
    return launch<T>(mma_rows_kernel<T, kDims, 1>, 8, kLeast, kBlocks, r, device, stream);
  }
  return launch<T>(mma_rows_kernel<T, kDims, 2>, 16, kLeast, kBlocks, r, device, stream);
}

template <typename T>
Error launch(Rows r, int device, cudaStream_t stream) {
  const Attention& a = r.a;
  constexpr int64_t kPack = 16 / sizeof(T);
  const auto fits = [](const void* data, const int64_t (&strides)[4]) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[3] == 1 &&
           strides[0] % kPack == 0 && strides[1] % kPack == 0 && strides[2] % kPack == 0;
  };
  const bool packed = a.dim % kPack == 0 && a.value_dim % kPack == 0 && fits(a.q, a.q_strides) &&
                      fits(a.k, a.k_strides) && fits(a.v, a.v_strides);
  if (!packed) return launch<T, 32, 1, false>(r, device, stream);
  const int64_t widest = std::max(a.dim, a.value_dim);
  if constexpr (sizeof(T) == 2) {
    if (widest <= 64) return launch_mma<T, 64>(r, device, stream);
    if (widest <= 128) return launch_mma<T, 128>(r, device, stream);
  } else {
    if (widest <= 64) return launch<T, 8>(r, device, stream);
    if (widest <= 128) return launch<T, 16>(r, device, stream);
  }
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
