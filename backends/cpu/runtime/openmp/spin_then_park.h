// Waiting of threads: spin briefly, then park.
//
//   spin_then_park.wait([&] { return word.load(std::memory_order_acquire) != old; },
//                       [&] { futex_wait(&word, old); });
//
// A spinning thread responds within a hundred nanoseconds but occupies a core; a parked one needs
// tens of microseconds. Thread-safe except SpinThenPark, which is per thread; no allocation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace pteron::cpu::openmp {

// About the time to wake a sleeping thread on a busy machine, or on a virtual one whose other
// processors sleep. Parking after this time at most doubles the wait.
inline constexpr std::chrono::nanoseconds kLongSpin = std::chrono::microseconds(200);
// If the other thread may need this one's core.
inline constexpr std::chrono::nanoseconds kShortSpin = std::chrono::microseconds(2);

// Sleeps while the four bytes at `word`, an atomic or its lower half, are `expected`. May return
// early.
void futex_wait(const void* word, uint32_t expected);
// Wakes up to `count` threads that sleep on `word`.
void futex_wake(const void* word, int count);

// The pause instruction of a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Polls `done` until true, for about `limit` at most. Returns its last value. The clock is read
// rarely, and never in a short wait.
template <typename Done>
bool spin_until(const Done& done, std::chrono::nanoseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr int kLooks = 64;
  Clock::time_point end{};
  for (bool first = true;; first = false) {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) return true;
      cpu_relax();
    }
    const Clock::time_point now = Clock::now();
    if (first) {
      end = now + limit;
    } else if (now >= end) {
      return done();
    }
  }
}

// Adapts how long a thread spins. If the event happens right after it parked, the thread may have
// occupied the core that the other needed (fewer free cores than threads); then it spins only
// briefly for some time.
class SpinThenPark final {
 public:
  // Returns when `done` is true. `sleep` blocks until it may be. `crowded`: there are more threads
  // than cores.
  template <typename Done, typename Sleep>
  void wait(const Done& done, const Sleep& sleep, bool crowded = false) {
    const bool is_short = crowded || short_waits_ > 0;
    if (short_waits_ > 0) --short_waits_;
    if (spin_until(done, is_short ? kShortSpin : kLongSpin)) return;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (!done()) sleep();
    if (!is_short && Clock::now() - start < kSoon) short_waits_ = kShortWaits;
  }

 private:
  static constexpr int kShortWaits = 64;
  static constexpr std::chrono::nanoseconds kSoon = std::chrono::microseconds(50);
  int short_waits_ = 0;
};

}  // namespace pteron::cpu::openmp
