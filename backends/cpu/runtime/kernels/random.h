// Random number generator of the process.
//
//   RandomStream stream = next_random_stream();
//   uint64_t bits = stream();
//
// Streams are independent; each is used by one thread. Seeded by the OS. Thread-safe.
#pragma once

#include <cstdint>

namespace pteron::cpu {

class RandomStream final {
 public:
  explicit RandomStream(uint64_t state) : state_(state) {}
  // 64 uniform bits.
  uint64_t operator()() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // Uniform in [0, count); count > 0.
  uint64_t below(uint64_t count) {
    // Rejects values that would bias the result.
    const uint64_t unfair = (0 - count) % count;
    uint64_t bits = (*this)();
    while (bits < unfair) bits = (*this)();
    return bits % count;
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

RandomStream next_random_stream();

}  // namespace pteron::cpu
