// Kernels of GEMMs with a quantized weight, which quantized_mma.cu launches.
//
// Few rows: the packed weight is streamed through shared memory once and dequantized in registers.
// A row of x is one of eight columns of mma.m16n8k16, a column of the weight one of its rows. From
// nine rows on most of what is read is x: a block reads it once for several strips of the weight.
// One row may be staged in shared memory, and normalized there.
// Many rows: the weight is dequantized to memory, for cuBLAS.
#pragma once

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "pteron/backends/aoti/ops/quantized_mma/quantized_mma.h"
#include "pteron/backends/cuda/runtime/kernels/early_launch.cuh"
#include "pteron/backends/cuda/runtime/shims/mma.cuh"

namespace pteron::cuda {
namespace {

using aoti::kMmaChunk;
using aoti::kMmaStrip;
using aoti::QuantizedFormat;

constexpr int kWarp = 32;
constexpr int kMaxWarps = 16;
// Blocks of a cluster, which halve a depth. Of clusters of four the GPU has room for too few.
template <int kStrips>
constexpr int kDepth = kStrips == 2 ? 2 : 1;
#if __CUDA_ARCH__ >= 900
#define PTERON_CLUSTER(strips) __cluster_dims__(1, 1, kDepth<strips>)
#else
#define PTERON_CLUSTER(strips)
#endif
// Chunks of each strip of a warp in shared memory, unless a kernel is told otherwise.
template <QuantizedFormat kFormat, int kStrips>
constexpr int kStages = kFormat == QuantizedFormat::kNone ? 3
                        : kStrips > 2                     ? 2
                                                          : 4;
constexpr int kChunkShift = 6;
static_assert(kMmaChunk == 1 << kChunkShift);

// 16-byte vectors that a thread reads of a chunk.
template <QuantizedFormat kFormat>
constexpr int kVectors = kFormat == QuantizedFormat::kInt4   ? 1
                         : kFormat == QuantizedFormat::kNone ? 4
                                                             : 2;

__device__ uint32_t bits(__nv_bfloat162 pair) { return *reinterpret_cast<uint32_t*>(&pair); }
__device__ uint32_t bits(__half2 pair) { return *reinterpret_cast<uint32_t*>(&pair); }

// Two float8 (e4m3) of `word` as 16-bit numbers with the exponent and mantissa `kDown` bits lower.
template <int kDown>
__device__ uint32_t float8_bits(uint32_t word, int i) {
  const uint32_t shifted = i ? word : word << 8;
  return (shifted & 0x80008000u) | ((shifted & 0x7f007f00u) >> kDown);
}

// The lowest nibbles of both halves of `word`, or `other`: in one instruction.
__device__ uint32_t nibbles(uint32_t word, uint32_t other) {
  uint32_t result;
  asm("lop3.b32 %0, %1, 0x000f000f, %2, 0xea;" : "=r"(result) : "r"(word), "r"(other));
  return result;
}

// Pairs of elements as 32 bits. int4: of the lowest nibbles of both halves; int8, float8: the i-th
// pair of a word, bytes i and i + 2. Integers are stored with an offset, 8 or 128.
template <typename T>
struct Pair;

template <>
struct Pair<__nv_bfloat16> {
  static constexpr uint32_t kOnes = 0x3f803f80;
  static __device__ __nv_bfloat162 two(uint32_t pair) {
    return *reinterpret_cast<__nv_bfloat162*>(&pair);
  }
  static __device__ float2 floats(uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
  static __device__ uint32_t int4(uint32_t word) {  // 128 + value, less 136
    return bits(__hsub2(two(nibbles(word, 0x43004300u)), two(0x43084308u)));
  }
  static __device__ uint32_t int8(uint32_t word, int i) {  // 128 + 7 bits, less 128 or 256
    const uint32_t pair = i ? word >> 8 : word;
    return bits(
        __hsub2(two((pair & 0x007f007fu) | 0x43004300u), two((~pair & 0x00800080u) | 0x43004300u)));
  }
  static __device__ uint32_t float8(uint32_t word, int i) {  // times 2^120
    return bits(__hmul2(two(float8_bits<4>(word, i)), two(0x7b807b80u)));
  }
};

template <>
struct Pair<__half> {
  static constexpr uint32_t kOnes = 0x3c003c00;
  static __device__ __half2 two(uint32_t pair) { return *reinterpret_cast<__half2*>(&pair); }
  static __device__ float2 floats(uint32_t pair) { return __half22float2(two(pair)); }
  static __device__ uint32_t int4(uint32_t word) {  // 1024 + value, less 1032
    return bits(__hsub2(two(nibbles(word, 0x64006400u)), two(0x64086408u)));
  }
  static __device__ uint32_t int8(uint32_t word, int i) {  // 1024 + value, less 1152
    const uint32_t pair = __byte_perm(word, 0x64646464u, i ? 0x4341 : 0x4240);
    return bits(__hsub2(two(pair), two(0x64806480u)));
  }
  static __device__ uint32_t float8(uint32_t word, int i) {  // times 2^8
    return bits(__hmul2(two(float8_bits<1>(word, i)), two(0x5c005c00u)));
  }
};

// The first operand of mma `q` of the four of a chunk.
template <typename T, QuantizedFormat kFormat>
__device__ void operand_of(const uint4 (&chunk)[kVectors<kFormat>], int q, uint32_t (&a)[4]) {
  const auto* words = reinterpret_cast<const uint32_t*>(chunk);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kFormat == QuantizedFormat::kInt4) {
      a[i] = Pair<T>::int4(words[q] >> (4 * i));
    } else if constexpr (kFormat == QuantizedFormat::kNone) {
      a[i] = words[4 * (q / 2 + 2 * (i % 2)) + 2 * (q % 2) + i / 2];
    } else if constexpr (kFormat == QuantizedFormat::kInt8) {
      a[i] = Pair<T>::int8(words[2 * q + i / 2], i % 2);
    } else {
      a[i] = Pair<T>::float8(words[2 * q + i / 2], i % 2);
    }
  }
}

template <typename T>
struct Operands {
  const T* x;
  const uint4* weight;
  const T* scales;
  const float* zero_points;
  T* out;
  int64_t m, n, k;
  int group_shift;  // row >> group_shift is its group
  int major;        // of the compute capability
  int most_shared;  // bytes of a block
  int warps;        // of a strip
  const T* norm;    // this and what follows: as of QuantizedMmaCall
  float epsilon;
  const T* residual;
  bool gated;
  // Of kNone: weights side by side, and the strips before the second and third; gated: two.
  const T* weights[3];
  unsigned begins[2];
};

// Writes 16 bytes to shared memory, later: groups of these are waited for in their order, which
// loads to registers cannot be (a thread has few counters of them).
__device__ void copy_async(bool if_, void* to, const void* from) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %0, 0;\n"
      "@p cp.async.cg.shared.global.L2::256B [%1], [%2], 16;}" ::"r"(static_cast<int>(if_)),
      "r"(shared), "l"(from));
}

// What a warp has of a chunk in shared memory; kScales: the groups of a chunk, 0 if scales are of
// columns.
template <typename T, QuantizedFormat kFormat, int kScales, bool kZeroPoints>
struct Chunk {
  uint4 weight[kVectors<kFormat>][kWarp];
  alignas(16) T scales[kScales ? kScales : 1][kScales ? kMmaStrip : 8];
  alignas(16) float zeros[kZeroPoints ? kScales : 1][kZeroPoints ? kMmaStrip : 4];
};

// The row x to shared memory, normalized if `norm`, the factors of its elements, is not null; this
// thread's copies of these, before all but kCopies other groups, may be on their way.
template <typename T, int kCopies>
__device__ void stage(const Operands<T>& p, T* to, const T* norm) {
  __shared__ float parts[kMaxWarps];
  constexpr unsigned kLoads = 4;  // at a time
  const auto quads = static_cast<unsigned>(p.k / 4);
  const auto* from = reinterpret_cast<const uint2*>(p.x);
  auto* own = reinterpret_cast<uint2*>(to);
  float square = 0;
  for (unsigned begin = threadIdx.x; begin < quads; begin += kLoads * blockDim.x) {
    uint2 x[kLoads] = {};
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      if (const unsigned i = begin + u * blockDim.x; i < quads) x[u] = from[i];
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; ++u) {
      if (const unsigned i = begin + u * blockDim.x; i < quads) own[i] = x[u];
      const float2 low = Pair<T>::floats(x[u].x), high = Pair<T>::floats(x[u].y);
      square += low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y;
    }
  }
  if (norm) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      square += __shfl_xor_sync(~0u, square, offset);
    }
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = square;
    asm volatile("cp.async.wait_group %0;" ::"n"(kCopies) : "memory");
    __syncthreads();
    square = 0;
    for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) square += parts[warp];
    const float by = rsqrtf(square / static_cast<float>(p.k) + p.epsilon);
    const auto normalized = [&](uint32_t pair, uint32_t factor) {
      const float2 two = Pair<T>::floats(pair);
      const uint32_t rounded = pair_of<T>(two.x * by, two.y * by);
      return bits(__hmul2(Pair<T>::two(rounded), Pair<T>::two(factor)));
    };
    for (unsigned i = threadIdx.x; i < quads; i += blockDim.x) {
      const uint2 x = own[i], factors = reinterpret_cast<const uint2*>(norm)[i];
      own[i] = {normalized(x.x, factors.x), normalized(x.y, factors.y)};
    }
  }
  __syncthreads();
}

// A block computes the columns of kStrips strips for 8 * kTiles rows of x. The warps of a cluster,
// the blocks of the same x and y, share the chunks of the strips, and their sums are added last, in
// a fixed order.
template <typename T, QuantizedFormat kFormat, int kTiles, int kStrips, int kScales,
          bool kZeroPoints, bool kStaged, int kAhead>
__global__ void PTERON_CLUSTER(kStrips) __launch_bounds__(kMaxWarps* kWarp, kTiles == 1 ? 2 : 1)
    few_rows_kernel(__grid_constant__ const Operands<T> p) {
  extern __shared__ uint4 memory[];
  const int lane = threadIdx.x % kWarp, in_block = threadIdx.x / kWarp;
  const int strip_warps = kStaged ? p.warps : blockDim.x / kWarp;
  const int warps = kDepth<kStrips> * strip_warps;
  const int warp = blockIdx.z * strip_warps + in_block % strip_warps;
  const int g = lane / 4, t = lane % 4;
  const int chunks = static_cast<int>(p.k / kMmaChunk);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * (8 * kTiles);
  const int rows = static_cast<int>(min(p.m - first, static_cast<int64_t>(8 * kTiles)));
  const unsigned strips = (p.n + kMmaStrip - 1) / kMmaStrip, columns = strips * kMmaStrip;
  const unsigned groups = kStaged ? blockDim.x / kWarp / p.warps : 1;  // of warps, with strips
  const unsigned strip = min((blockIdx.x * groups + in_block / strip_warps) * kStrips, strips - 1);
  const unsigned column = strip * kMmaStrip;
  // Strips past the last repeat it; what they compute is not written.
  const auto own = [&](unsigned s) { return kStrips == 1 ? s : min(s, strips - strip - 1); };
  constexpr int kPackedChunk = kVectors<kFormat> * kWarp;
  constexpr bool kScalesFirst = kScales && kTiles > 2;  // fewer products than for sums
  using Stage = Chunk<T, kFormat, kScales, kZeroPoints>[kStrips];
  auto* stages = reinterpret_cast<Stage*>(memory) + in_block * kAhead;

  // What this thread copies of the warp's next chunk: from chunk `warp` on in steps of `warps`.
  const uint4* weight =
      p.weight + (static_cast<int64_t>(strip) * chunks + warp) * kPackedChunk + lane;
  // Not packed: of columns g and g + 8 of the strip, 16 bytes at t and 16 at t + 4 of a chunk, so
  // that a thread reads what it copied.
  const uint4* rows_of[2] = {};
  if constexpr (kFormat == QuantizedFormat::kNone) {
    const int i = p.gated ? 0 : (strip >= p.begins[0]) + (strip >= p.begins[1]);
    const int64_t at =
        p.gated ? strip * 8 + g : (strip - (i ? p.begins[i - 1] : 0)) * kMmaStrip + g;
    const T* const other = p.gated ? p.weights[1] + at * p.k : p.weights[i] + (at + 8) * p.k;
    rows_of[0] = reinterpret_cast<const uint4*>(p.weights[i] + at * p.k) + t;
    rows_of[1] = reinterpret_cast<const uint4*>(other) + t;
  }
  const T* scales = p.scales + column + lane % 2 * 8;
  const float* zeros = p.zero_points + column + lane % 4 * 4;
  const auto load = [&](int c, Stage& to) {
    const bool is_chunk = c < chunks;
    const auto before = [&](int of) -> uint64_t {  // elements before a group of the chunk
      const unsigned group = kScales == 2 ? 2 * c + of : c >> (p.group_shift - kChunkShift);
      return static_cast<uint64_t>(group) * columns;
    };
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
#pragma unroll
      for (int v = 0; v < kVectors<kFormat>; ++v) {
        const int64_t at = static_cast<int64_t>(own(s)) * chunks * kPackedChunk + v * kWarp;
        const bool is_packed = kFormat != QuantizedFormat::kNone;
        copy_async(is_chunk, &to[s].weight[v][lane],
                   is_packed ? weight + at : rows_of[v / 2] + c * (kMmaChunk / 8) + v % 2 * 4);
      }
      if constexpr (kScales > 0) {
        copy_async(is_chunk && lane < 2 * kScales, to[s].scales[0] + lane * 8,
                   scales + before(lane / 2) + own(s) * kMmaStrip);
      }
      if constexpr (kZeroPoints) {
        copy_async(is_chunk && lane < 4 * kScales, to[s].zeros[0] + lane * 4,
                   zeros + before(lane / 4) + own(s) * kMmaStrip);
      }
    }
    weight += warps * kPackedChunk;
    asm volatile("cp.async.commit_group;");
  };
  T* const staged =
      reinterpret_cast<T*>(reinterpret_cast<Stage*>(memory) + blockDim.x / kWarp * kAhead);
  T* const norm = staged + p.k;
  if (kStaged && p.norm) {  // part of the first group of copies
    for (int i = threadIdx.x; i < p.k / 8; i += blockDim.x) {
      copy_async(true, norm + i * 8, p.norm + i * 8);
    }
  }
#pragma unroll
  for (int i = 0; i < kAhead - 1; ++i) load(warp + i * warps, stages[i]);
  wait_for_kernels_before();  // what was copied before is constant, as the pass over GEMMs makes it

  if constexpr (kStaged) stage<T, kAhead - 2>(p, staged, p.norm ? norm : nullptr);
  // Rows past the last repeat it; what they compute is not written.
  const uint2* x[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int64_t row = first + min(8 * tile + g, rows - 1);
    x[tile] = reinterpret_cast<const uint2*>(kStaged ? staged : p.x + row * p.k) +
              (kFormat == QuantizedFormat::kNone ? 2 * t : t);
  }
  float sums[kStrips][kTiles][4] = {};
  for (int begin = warp; begin < chunks; begin += kAhead * warps) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int c = begin + i * warps;
      if (c >= chunks) break;
      uint2 b[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int at = kFormat == QuantizedFormat::kNone ? q / 2 * 8 + q % 2 : 4 * q;
          b[tile][q] = x[tile][c * (kMmaChunk / 4) + at];
        }
      }
      asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 2) : "memory");
      __syncwarp();
      load(c + (kAhead - 1) * warps, stages[(i + kAhead - 1) % kAhead]);
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        const auto& chunk = stages[i][s];
        uint4 packed[kVectors<kFormat>];
#pragma unroll
        for (int v = 0; v < kVectors<kFormat>; ++v) packed[v] = chunk.weight[v][lane];
        float part[kTiles][4] = {}, totals[kTiles][4] = {};  // totals: sums of x, for zero points
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int of = q * kScales / 4;
          uint32_t a[4];
          operand_of<T, kFormat>(packed, q, a);
          if constexpr (kScalesFirst) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const T scale = chunk.scales[of][g + i % 2 * 8];
              a[i] = bits(__hmul2(Pair<T>::two(a[i]), {scale, scale}));
            }
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            mma<T>(kScales && !kScalesFirst ? part[tile] : sums[s][tile], a, b[tile][q]);
            if constexpr (kZeroPoints) {
              constexpr uint32_t kOnes = Pair<T>::kOnes;
              const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
              mma<T>(totals[tile], ones, b[tile][q]);
            }
          }
          if (q != 3 && (kScales != 2 || q != 1)) continue;
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
            for (int j = 0; kScales && j < 4; ++j) {
              const int at = g + j / 2 * 8;
              if constexpr (!kScalesFirst) {
                sums[s][tile][j] += part[tile][j] * static_cast<float>(chunk.scales[of][at]);
              }
              if constexpr (kZeroPoints) sums[s][tile][j] += totals[tile][j] * chunk.zeros[of][at];
              part[tile][j] = totals[tile][j] = 0;
            }
          }
        }
      }
    }
  }
  asm volatile("cp.async.wait_all;");
  __syncthreads();

  auto* shared = reinterpret_cast<float*>(memory);  // [warps][kStrips * kTiles * 4][kWarp]
  constexpr int kSums = kStrips * kTiles * 4 * kWarp;
#pragma unroll
  for (int i = 0; i < kSums / kWarp; ++i) {
    shared[in_block * kSums + i * kWarp + lane] = sums[i / 4 / kTiles][i / 4 % kTiles][i % 4];
  }
  __syncthreads();
  const auto total = [&](int at) {  // at: [groups][kSums]
    const float* of = shared + at / kSums * (strip_warps - 1) * kSums + at;
    float sum = 0;
    for (int w = 0; w < strip_warps; ++w) sum += of[w * kSums];
    return sum;
  };
  const auto write = [&](int sum_at, float sum) {
    const int64_t column = (blockIdx.x * groups + sum_at / kSums) * kStrips * kMmaStrip;
    const int at = sum_at % kSums;
    const int i = at / kWarp, l = at % kWarp, half = i % 4 / 2;
    const int64_t row = first + i / 4 % kTiles * 8 + l % 4 * 2 + i % 2;
    const int64_t j = column + i / 4 / kTiles * kMmaStrip + l / 4 + half * 8;
    if (row >= p.m || j >= p.n) return;
    const auto rounded = [&](float sum, int64_t j) {
      const bool is_scaled = kScales || kFormat == QuantizedFormat::kNone;
      return static_cast<float>(
          static_cast<T>(is_scaled ? sum : sum * static_cast<float>(p.scales[j])));
    };
    float result = rounded(sum, j);
    int64_t to = row * p.n + j;
    if constexpr (kTiles == 1) {
      if (p.residual) result += static_cast<float>(p.residual[to]);
      if (p.gated) {
        if (half) return;
        const T silu = static_cast<T>(result / (1 + __expf(-result)));
        result = static_cast<float>(silu) * rounded(total(sum_at + 2 * kWarp), j + 8);
        to = row * (p.n / 2) + column / 2 + l / 4;
      }
    }
    p.out[to] = static_cast<T>(result);
  };
  for (int at = threadIdx.x; at < groups * kSums; at += blockDim.x) {
    const float sum = total(at);
    if constexpr (kDepth<kStrips> == 1) {
      write(at, sum);
    } else {
      shared[at] = sum;
    }
  }
#if __CUDA_ARCH__ >= 900
  if constexpr (kDepth<kStrips> > 1) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    const int begin = blockIdx.z * blockDim.x + threadIdx.x;
    for (int at = begin; at < kSums; at += kDepth<kStrips> * blockDim.x) {
      float sum = 0;
#pragma unroll
      for (int z = 0; z < kDepth<kStrips>; ++z) sum += cluster.map_shared_rank(shared, z)[at];
      write(at, sum);
    }
    cluster.sync();  // no block ends while others read its memory
  }
#endif
}

// The weight as [n, k]; a warp dequantizes a chunk.
template <typename T, QuantizedFormat kFormat>
__global__ void dequantize_kernel(__grid_constant__ const Operands<T> p, T* out) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const int64_t chunks = p.k / kMmaChunk, strips = (p.n + kMmaStrip - 1) / kMmaStrip;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  wait_for_kernels_before();
  if (at >= strips * chunks) return;
  uint4 chunk[kVectors<kFormat>];
#pragma unroll
  for (int v = 0; v < kVectors<kFormat>; ++v) {
    chunk[v] = p.weight[(at * kVectors<kFormat> + v) * kWarp + lane];
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    uint32_t a[4];
    operand_of<T, kFormat>(chunk, q, a);
    const int64_t row = at % chunks * kMmaChunk + 16 * q;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t column = at / chunks * kMmaStrip + g + 8 * half;
      if (column >= p.n) continue;
      const int64_t parameter = (row >> p.group_shift) * strips * kMmaStrip + column;
      const auto scale = static_cast<float>(p.scales[parameter]);
      const float zero = p.zero_points ? p.zero_points[parameter] : 0.f;
      const float2 low = Pair<T>::floats(a[half]), high = Pair<T>::floats(a[half + 2]);
      *reinterpret_cast<uint2*>(out + column * p.k + row + 4 * t) = {
          pair_of<T>(low.x * scale + zero, low.y * scale + zero),
          pair_of<T>(high.x * scale + zero, high.y * scale + zero)};
    }
  }
}

}  // namespace
}  // namespace pteron::cuda
