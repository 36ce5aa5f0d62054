// How threads wait for each other: a short while awake, then asleep.
//
//   spin_then_park.wait([&] { return word.load(std::memory_order_acquire) != old; },
//                       [&] { futex_wait(&word, old); });
//
// Awake, a thread answers within a hundred nanoseconds and holds a core that somebody else may
// need; asleep, it takes some tens of microseconds. Thread-safe but for SpinThenPark, which is its
// thread's own; no allocation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace pteron::cpu::openmp {

// About what it takes to wake a sleeping thread on a busy machine, or on a virtual one whose other
// processors sleep, too: whoever waits longer than this awake loses at most as much again by
// sleeping.
inline constexpr std::chrono::nanoseconds kLongSpin = std::chrono::microseconds(200);
// Where the thread that is waited for may need this one's core.
inline constexpr std::chrono::nanoseconds kShortSpin = std::chrono::microseconds(2);

// Sleeps while the four bytes at `word`, an atomic or its lower half, are `expected`. May return
// early.
void futex_wait(const void* word, uint32_t expected);
// Wakes up to `count` threads that sleep on `word`.
void futex_wake(const void* word, int count);

// Tells the core that this is a waiting loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Calls `done` until it holds, for at most about `limit`. Returns what it said last. The clock is
// read now and then only, and not at all when the wait is short.
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

// How long a thread waits awake. If what it waits for happens soon after it went to sleep, it may
// have been in the way itself, on a machine with fewer free cores than threads; then it waits only
// shortly for some time.
class SpinThenPark final {
 public:
  // Returns when `done` holds. `sleep` sleeps until it may hold. `crowded`: it is known that there
  // are more threads than cores.
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
