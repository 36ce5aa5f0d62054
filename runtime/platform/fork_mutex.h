// What fork() waits for: a child has one thread, and would wait for ever for what others held.
//
//   ForkMutex mutex;
//   std::lock_guard<ForkMutex> lock(mutex);          // no fork() before it is unlocked
//
//   static Once<int> count;
//   return count.get([] { return count_cores(); });   // as a static variable, but so guarded
//
// For what is process wide or shared by threads, and held for as long as a library takes to open,
// not while code of a user's runs: fork() waits, in Python with the GIL. They may be nested.
// Thread-safe. In a child all are free and what they guard is whole.
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

// Made at the first call, for the life of the process.
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

// How often this process and those before it were made by fork() since they had this library. What
// another thread began under an earlier number will not end.
inline uint32_t fork_generation() noexcept {
  return internal::generation_of_forks.load(std::memory_order_relaxed);
}

}  // namespace pteron
