// Random numbers by Philox 4x32-10, a counter-based generator: element i of draw d depends on the
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

// Integers in [low, high) over `count` contiguous elements; low < high. InvalidType for float8, here
// and below.
Error fill_random(RandomDraw draw, int64_t low, int64_t high, ScalarType dtype, void* out,
                  int64_t count, cudaStream_t stream);

// The numbers from 0 to below n, less than 2^31, in random order. `device` must be current, here and
// below.
Error permute_random(RandomDraw draw, ScalarType dtype, void* out, int64_t n, int device,
                     cudaStream_t stream);

// `count` positions of each row of a row-major (rows, n), as probable as the numbers there.
struct RandomChoice {
  ScalarType dtype;
  const void* x;  // floating-point, finite, not negative, of each row some above 0: is not checked
  int64_t rows, n, count;
  bool replacement;  // false: those of one row differ; n is then less than 2^31
};

// `out` is row-major (rows, count). `numbers`, of the sizes of x, holds the sums of each row up to
// every element of it; without replacement anything, and is written.
Error choose_random(RandomDraw draw, const RandomChoice& choice, double* numbers, int64_t* out,
                    int device, cudaStream_t stream);

}  // namespace pteron::cuda
