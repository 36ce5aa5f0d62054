#include "pteron/backends/cpu/runtime/openmp/critical.h"

#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"

namespace pteron::cpu::openmp {
namespace {

enum : uint32_t { kFree = 0, kTaken = 1, kAwaited = 2 };

struct Held {
  std::atomic<uint32_t>* words[kMaxCriticals];
  int count = 0;
};
thread_local Held held;

void unlock(std::atomic<uint32_t>& word) {
  if (word.exchange(kFree, std::memory_order_release) == kAwaited) futex_wake(&word, 1);
}

}  // namespace

void enter_critical(std::atomic<uint32_t>& word) {
  const auto take = [&] {
    uint32_t state = kFree;
    return word.load(std::memory_order_relaxed) == kFree &&
           word.compare_exchange_strong(state, kTaken, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  };
  if (!take() && !spin_until(take, kShortSpin)) {
    while (word.exchange(kAwaited, std::memory_order_acquire) != kFree) futex_wait(&word, kAwaited);
  }
  if (held.count < kMaxCriticals) held.words[held.count] = &word;
  ++held.count;
}

void leave_critical(std::atomic<uint32_t>& word) {
  --held.count;
  unlock(word);
}

void leave_all_criticals() {
  while (held.count > 0) {
    if (--held.count < kMaxCriticals) unlock(*held.words[held.count]);
  }
}

}  // namespace pteron::cpu::openmp
