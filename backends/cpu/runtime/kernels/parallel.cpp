#include "pteron/backends/cpu/runtime/kernels/parallel.h"

#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"

namespace pteron::cpu {

int max_threads() { return openmp::in_region() ? 1 : openmp::max_threads(); }

ThreadLimit::ThreadLimit(int threads) : before_(openmp::max_threads()) {
  if (threads != before_) openmp::set_max_threads(threads);
}

ThreadLimit::~ThreadLimit() {
  if (openmp::max_threads() != before_) openmp::set_max_threads(before_);
}

namespace internal {

void run_tasks(int count, void (*task)(void* context, int i), void* context) {
  // An exception that leaves a task on a pool thread would terminate the process.
  struct Tasks {
    void (*task)(void* context, int i);
    void* context;
    int count;
    slim::MemoryUse* use;
    std::atomic<bool> has_failed{false};
    std::exception_ptr failure;
  } tasks{task, context, count, slim::MemoryUse::current()};
  const Error error = openmp::run_region(
      [](void* data) {
        Tasks& t = *static_cast<Tasks*>(data);
        slim::MemoryUse*& use = slim::MemoryUse::current();
        slim::MemoryUse* const before = std::exchange(use, t.use);
        try {
          for (int i = openmp::thread_num(); i < t.count; i += openmp::num_threads()) {
            t.task(t.context, i);
          }
        } catch (...) {
          if (!t.has_failed.exchange(true)) t.failure = std::current_exception();
        }
        use = before;
      },
      &tasks, count);
  if (tasks.failure) std::rethrow_exception(tasks.failure);
  // Tasks have no assertions and no barriers, so only thread memory can fail; or the run was
  // cancelled, which the executor reports.
  if (!error.ok()) throw std::bad_alloc();
}

}  // namespace internal
}  // namespace pteron::cpu
