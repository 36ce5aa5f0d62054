// Parallel loops on the threads of a run.
//
//   parallel_for(rows, /*grain=*/64, [&](int64_t begin, int64_t end) { ... });
//
// Uses at most max_threads() threads (openmp/region.h), including the calling one, from the pool
// that compiled code uses too. Nested calls run serially.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pteron::cpu {

// Maximum threads of the next parallel_for of this thread, at least 1.
int max_threads();

// Sets it for a scope, for this thread.
class ThreadLimit final {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

namespace internal {
// Calls task(context, i) for i in [0, count), on separate threads as far as available. Rethrows the
// first exception.
void run_tasks(int count, void (*task)(void* context, int i), void* context);
}  // namespace internal

// Splits [0, size) into at most max_threads() ranges of at least `grain`, and calls body(begin,
// end) for each. Rethrows an exception of `body` after all started calls have finished.
template <typename Body>
void parallel_for(int64_t size, int64_t grain, const Body& body) {
  if (size <= 0) return;
  const int64_t most = (size + std::max<int64_t>(grain, 1) - 1) / std::max<int64_t>(grain, 1);
  const auto count = static_cast<int>(std::min<int64_t>(most, most > 1 ? max_threads() : 1));
  if (count <= 1) {
    body(int64_t{0}, size);
    return;
  }
  struct Context {
    const Body* body;
    int64_t size;
    int64_t count;
  } context{&body, size, count};
  internal::run_tasks(
      count,
      [](void* data, int i) {
        const Context& c = *static_cast<const Context*>(data);
        (*c.body)(c.size* i / c.count, c.size * (i + 1) / c.count);
      },
      &context);
}

}  // namespace pteron::cpu
