// A library with a pool of its own, to be opened and closed.
#include <atomic>

#include "pteron/backends/cpu/runtime/openmp/region.h"

extern "C" __attribute__((visibility("default"))) int use_regions(int threads) {
  std::atomic<int> members{0};
  const pteron::Error error = pteron::cpu::openmp::run_region(
      [](void* data) {
        pteron::cpu::openmp::barrier();
        ++*static_cast<std::atomic<int>*>(data);
      },
      &members, threads);
  return error.ok() ? members.load() : -1;
}
