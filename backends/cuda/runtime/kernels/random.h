// Random integers by Philox 4x32-10, a counter-based generator: element i of draw d depends on the
// seed, d and i alone.
//
//   PTERON_RETURN_IF_ERROR(fill_random(RandomSequence::of_process().next(), low, high,
//                                      ScalarType::Long, out, count, stream));
//
// Same distribution as torch's, other numbers. Asynchronous on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

struct RandomDraw {
  uint64_t seed;
  uint64_t number;
};

// Draws, one after another, of one seed. Thread-safe.
class RandomSequence final {
 public:
  // Seeded by the system when first used.
  static RandomSequence& of_process();

  void seed(uint64_t seed) {
    seed_.store(seed);
    next_.store(0);
  }
  RandomDraw next() { return {seed_.load(), next_.fetch_add(1)}; }

 private:
  std::atomic<uint64_t> seed_{0};
  std::atomic<uint64_t> next_{0};
};

// Integers in [low, high) over `count` contiguous elements. InvalidArgument unless low < high;
// InvalidType for float8.
Error fill_random(RandomDraw draw, int64_t low, int64_t high, ScalarType dtype, void* out,
                  int64_t count, cudaStream_t stream);

}  // namespace pteron::cuda
