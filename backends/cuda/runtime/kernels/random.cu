#include <random>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/numbers.cuh"
#include "pteron/backends/cuda/runtime/kernels/random.h"

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
  PTERON_CHECK_OR_RETURN(low < high, Error::InvalidArgument,
                         "random integers from %lld to below %lld: there are none",
                         static_cast<long long>(low), static_cast<long long>(high));
  PTERON_CHECK_OR_RETURN(dtype != ScalarType::Float8_e5m2 && dtype != ScalarType::Float8_e4m3fn,
                         Error::InvalidType, "random integers: found %s, expected another dtype",
                         name_of(dtype));
  if (count == 0) return Error::Ok;
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  random_kernel<<<static_cast<unsigned>(blocks < 8192 ? blocks : 8192), kThreads, 0, stream>>>(
      draw, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low), dtype, out, count);
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "drawing random integers");
  return Error::Ok;
}

}  // namespace pteron::cuda
