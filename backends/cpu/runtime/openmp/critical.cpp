#include "pteron/backends/cpu/runtime/openmp/critical.h"

#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cpu::openmp {
namespace {

// Free, or held by a thread of this process. After fork(), a lock held in the parent counts as
// free.
constexpr uint32_t kFree = 0;
uint32_t taken() { return 4 * fork_generation() + 1; }
uint32_t awaited() { return 4 * fork_generation() + 2; }
bool is_taken(uint32_t state) {
  return state != kFree && state / 4 == fork_generation() % (1U << 30);
}

struct Held {
  std::atomic<uint32_t>* words[kMaxCriticals];
  int count = 0;
};
thread_local Held held;

void unlock(std::atomic<uint32_t>& word) {
  if (word.exchange(kFree, std::memory_order_release) == awaited()) futex_wake(&word, 1);
}

}  // namespace

void enter_critical(std::atomic<uint32_t>& word) {
  const auto take = [&] {
    uint32_t state = word.load(std::memory_order_relaxed);
    return !is_taken(state) &&
           word.compare_exchange_strong(state, taken(), std::memory_order_acquire,
                                        std::memory_order_relaxed);
  };
  if (!take() && !spin_until(take, kShortSpin)) {
    while (is_taken(word.exchange(awaited(), std::memory_order_acquire))) {
      futex_wait(&word, awaited());
    }
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
