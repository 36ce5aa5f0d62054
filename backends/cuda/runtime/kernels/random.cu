#include <limits>
#include <random>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/random.h"
#include "pteron/backends/cuda/runtime/kernels/sort.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

// 64 random bits for element `i` of a draw: two words of Philox 4x32 with 10 rounds.
__device__ inline uint64_t random_bits(RandomDraw draw, uint64_t i) {
  uint32_t counter[4] = {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                         static_cast<uint32_t>(draw.number),
                         static_cast<uint32_t>(draw.number >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(draw.seed), static_cast<uint32_t>(draw.seed >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return uint64_t{counter[0]} << 32 | counter[1];
}

__global__ void random_kernel(RandomDraw draw, int64_t low, uint64_t range, ScalarType dtype,
                              void* out, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const uint64_t bits = random_bits(draw, static_cast<uint64_t>(i));
    // The high word of the product spreads the bits evenly over the range; 0 stands for 2^64.
    const uint64_t offset = range ? __umul64hi(bits, range) : bits;
    store_as<int64_t>(out, dtype, i, static_cast<int64_t>(static_cast<uint64_t>(low) + offset));
  }
}

// In [0, 1).
__device__ inline double uniform(RandomDraw draw, int64_t i) {
  return static_cast<double>(random_bits(draw, static_cast<uint64_t>(i)) >> 11) * 0x1p-53;
}

__global__ void convert_kernel(const int64_t* x, int64_t count, ScalarType dtype, void* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    store_as<int64_t>(out, dtype, i, x[i]);
  }
}

// Independent waiting times with the numbers as rates.
__global__ void race_kernel(RandomDraw draw, const void* x, ScalarType dtype, int64_t count,
                            double* times) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const double rate = load_as<double>(x, dtype, i);
    times[i] = rate > 0 ? -log1p(-uniform(draw, i)) / rate : INFINITY;
  }
}

// `sums` are those of each row up to every element of it.
__global__ void pick_kernel(RandomDraw draw, const double* sums, int64_t n, int64_t count,
                            int64_t draws, int64_t* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < draws;
       i += step) {
    const double* const row = sums + i / count * n;
    const double total = row[n - 1], drawn = uniform(draw, i) * total;
    int64_t low = 0, high = n - 1;  // of the last element it is known
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      // A product that was rounded up to the total belongs to the last number above 0.
      if (row[middle] > drawn || row[middle] >= total) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    out[i] = low;
  }
}

unsigned blocks_for(int64_t count) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < 8192 ? needed : 8192);
}

}  // namespace

RandomSequence& RandomSequence::of_process() {
  static RandomSequence* sequence = [] {
    auto* made = new RandomSequence();
    std::random_device device;
    made->seed(uint64_t{device()} << 32 | device());
    return made;
  }();
  return *sequence;
}

Error fill_random(RandomDraw draw, int64_t low, int64_t high, ScalarType dtype, void* out,
                  int64_t count, cudaStream_t stream) {
  PTERON_CHECK_OR_RETURN(dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn,
                         Error::InvalidType, "random integers: found %s, expected another dtype",
                         name_of(dtype));
  if (count == 0) return Error::Ok;
  random_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      draw, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low), dtype, out, count);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "drawing random integers");
  return Error::Ok;
}

// The order of random keys.
Error permute_random(RandomDraw draw, ScalarType dtype, void* out, int64_t n, int device,
                     cudaStream_t stream) {
  if (n == 0) return Error::Ok;
  const size_t nbytes = static_cast<size_t>(n) * sizeof(int64_t);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch, allocate_scratch(3 * nbytes, device));
  auto* const keys = static_cast<int64_t*>(scratch->data);
  const bool wide = dtype == ScalarType::Long;
  int64_t* const order = wide ? static_cast<int64_t*>(out) : keys + 2 * n;
  PTERON_RETURN_IF_ERROR(fill_random(draw, std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max(), ScalarType::Long, keys, n,
                                     stream));
  PTERON_RETURN_IF_ERROR(sort_rows(ScalarType::Long, keys, 1, n, /*descending=*/false, n, keys + n,
                                   order, device, stream));
  if (wide) return Error::Ok;
  PTERON_CHECK_OR_RETURN(dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn,
                         Error::InvalidType, "random integers: found %s, expected another dtype",
                         name_of(dtype));
  convert_kernel<<<blocks_for(n), kThreads, 0, stream>>>(order, n, dtype, out);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "storing a permutation");
  return Error::Ok;
}

Error choose_random(RandomDraw draw, const RandomChoice& choice, double* numbers, int64_t* out,
                    int device, cudaStream_t stream) {
  const int64_t rows = choice.rows, n = choice.n, draws = rows * choice.count;
  if (draws == 0) return Error::Ok;
  if (choice.replacement) {
    pick_kernel<<<blocks_for(draws), kThreads, 0, stream>>>(draw, numbers, n, choice.count, draws,
                                                            out);
    PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "drawing from sums");
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef sorted,
                          allocate_scratch(static_cast<size_t>(draws) * sizeof(double), device));
  race_kernel<<<blocks_for(rows * n), kThreads, 0, stream>>>(draw, choice.x, choice.dtype, rows * n,
                                                             numbers);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "drawing waiting times");
  return sort_rows(ScalarType::Double, numbers, rows, n, /*descending=*/false, choice.count,
                   sorted->data, out, device, stream);
}

}  // namespace pteron::cuda
