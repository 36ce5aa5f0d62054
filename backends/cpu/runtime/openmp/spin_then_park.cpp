#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pteron::cpu::openmp {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && sizeof(std::atomic<uint64_t>) == 8);

void futex_wait(const void* word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(const void* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace pteron::cpu::openmp
