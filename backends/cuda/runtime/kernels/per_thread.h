// A thread-local object that a later thread reuses when this one ends.
//
//   struct Plans { ... };
//   Plans& plans = per_thread<Plans>();   // exclusive to this thread
//
// For objects that are expensive to create and must not be shared: there are as many as threads ran
// concurrently. Never destroyed, since at process exit their libraries may be gone.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace pteron::cuda {

template <typename T>
T& per_thread() {
  struct Free {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> objects;
  };
  static Free* const free = new Free;
  struct Loan {
    Loan() {
      const std::lock_guard<std::mutex> lock(free->mutex);
      if (free->objects.empty()) {
        object = std::make_unique<T>();
      } else {
        object = std::move(free->objects.back());
        free->objects.pop_back();
      }
    }
    ~Loan() {
      const std::lock_guard<std::mutex> lock(free->mutex);
      free->objects.push_back(std::move(object));
    }
    std::unique_ptr<T> object;
  };
  thread_local Loan loan;
  return *loan.object;
}

}  // namespace pteron::cuda
