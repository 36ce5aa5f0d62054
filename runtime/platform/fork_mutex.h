// A mutex that fork() waits for: a child has only one thread and would deadlock on locks held by
// others.
//
//   ForkMutex mutex;
//   std::lock_guard<ForkMutex> lock(mutex);          // no fork() before it is unlocked
//
//   static Once<int> count;
//   return count.get([] { return count_cores(); });   // like a static variable, with such a lock
//
// For process-wide or shared state. May be held while a library is opened, but not while user code
// runs: fork() waits for it, in Python with the GIL. May be nested. Thread-safe. In a child all are
// free and the guarded data is consistent.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace pteron {

class ForkMutex final {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

// Created at the first call, for the life of the process.
template <typename T>
class Once final {
 public:
  template <typename Make>
  T& get(const Make& make) {
    T* value = value_.load(std::memory_order_acquire);
    if (__builtin_expect(value != nullptr, 1)) return *value;
    const std::lock_guard<ForkMutex> lock(mutex_);
    value = value_.load(std::memory_order_relaxed);
    if (!value) value_.store(value = new T(make()), std::memory_order_release);
    return *value;
  }

 private:
  std::atomic<T*> value_{nullptr};
  ForkMutex mutex_;
};

namespace internal {
extern std::atomic<uint32_t> generation_of_forks;
}

// The number of forks since this library was loaded. Work that another thread started under an
// earlier number never finishes.
inline uint32_t fork_generation() noexcept {
  return internal::generation_of_forks.load(std::memory_order_relaxed);
}

}  // namespace pteron
