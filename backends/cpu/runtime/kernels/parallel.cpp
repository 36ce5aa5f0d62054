#include "pteron/backends/cpu/runtime/kernels/parallel.h"

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
  struct Tasks {
    void (*task)(void* context, int i);
    void* context;
    int count;
  } tasks{task, context, count};
  const Error error = openmp::run_region(
      [](void* data) {
        const Tasks& t = *static_cast<const Tasks*>(data);
        for (int i = openmp::thread_num(); i < t.count; i += openmp::num_threads()) {
          t.task(t.context, i);
        }
      },
      &tasks, count);
  (void)error;  // tasks check nothing and meet at no barrier
}

}  // namespace internal
}  // namespace pteron::cpu
