#include "pteron/runtime/platform/fork_mutex.h"

#include <pthread.h>

namespace pteron {
namespace {

// A readers-writer lock: holders of a ForkMutex share it, fork() has it exclusively. A waiting
// fork() goes before threads that hold none yet.
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
constexpr pthread_rwlock_t kFree = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
#else
constexpr pthread_rwlock_t kFree = PTHREAD_RWLOCK_INITIALIZER;
#endif
pthread_rwlock_t gate = kFree;
thread_local int held = 0;

// A thread that forks while holding one must not wait for itself.
void before_fork() {
  if (held == 0) pthread_rwlock_wrlock(&gate);
}

void after_fork_in_parent() {
  if (held == 0) pthread_rwlock_unlock(&gate);
}

void after_fork_in_child() {
  internal::generation_of_forks.fetch_add(1, std::memory_order_relaxed);
  gate = kFree;  // waiting threads do not exist in the child
  if (held > 0) pthread_rwlock_rdlock(&gate);
}

[[maybe_unused]] const int registered =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

}  // namespace

void ForkMutex::lock() {
  if (held++ == 0) pthread_rwlock_rdlock(&gate);
  mutex_.lock();
}

void ForkMutex::unlock() {
  mutex_.unlock();
  if (--held == 0) pthread_rwlock_unlock(&gate);
}

std::atomic<uint32_t> internal::generation_of_forks{0};

}  // namespace pteron
