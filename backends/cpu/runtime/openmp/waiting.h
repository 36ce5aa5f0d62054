// How threads wait for each other: a short while awake, then asleep.
//
//   if (!spin_until([&] { return word.load(std::memory_order_acquire) != old; }, kSpinTime)) {
//     futex_wait(&word, old);  // returns when another thread has changed `word` and calls
//   }                          // futex_wake(&word, 1), or for no reason: look again
//
// Awake, a thread answers within a hundred nanoseconds and holds a core that somebody else may
// need; asleep, it takes some tens of microseconds. Thread-safe; no allocation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace pteron::cpu::openmp {

// About what it takes to wake a sleeping thread: whoever waits longer than this loses at most as
// much again by sleeping.
inline constexpr std::chrono::nanoseconds kSpinTime = std::chrono::microseconds(50);

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

}  // namespace pteron::cpu::openmp
