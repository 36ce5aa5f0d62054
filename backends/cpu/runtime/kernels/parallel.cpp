#include "backends/cpu/runtime/kernels/parallel.h"

#include <omp.h>

namespace pteron::cpu {

int max_threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}

ThreadLimit::~ThreadLimit() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

namespace internal {

void run_tasks(int count, void (*task)(void* context, int i), void* context) {
#pragma omp parallel for num_threads(count) schedule(static, 1)
  for (int i = 0; i < count; ++i) task(context, i);
}

}  // namespace internal
}  // namespace pteron::cpu
