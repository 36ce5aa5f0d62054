#include "pteron/runtime/executor/tests/allocation_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace pteron::testing {
namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};
std::atomic<int64_t> limit{INT64_MAX};
// Allocations until one fails; negative afterwards.
std::atomic<int64_t> until_failure{INT64_MAX};

void* allocate(size_t nbytes) noexcept {
  if (FailingAllocation::is_due()) return nullptr;
  if (nbytes > PTRDIFF_MAX || live + static_cast<int64_t>(nbytes) > limit) return nullptr;
  void* const block = std::malloc(std::max<size_t>(nbytes, 1));
  if (!block) return nullptr;
  const int64_t now = live += static_cast<int64_t>(::malloc_usable_size(block));
  int64_t highest = peak;
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
  return block;
}

void release(void* block) noexcept {
  if (block) live -= static_cast<int64_t>(::malloc_usable_size(block));
  std::free(block);
}

int64_t before = 0;

}  // namespace

AllocationMeter::AllocationMeter(size_t limit_nbytes) {
  before = peak = live.load();
  limit = limit_nbytes < static_cast<size_t>(INT64_MAX - before)
              ? before + static_cast<int64_t>(limit_nbytes)
              : INT64_MAX;
}

AllocationMeter::~AllocationMeter() { limit = INT64_MAX; }

int64_t live_nbytes() { return live; }

FailingAllocation::FailingAllocation(int64_t count) { until_failure = count; }
FailingAllocation::~FailingAllocation() { until_failure = INT64_MAX; }
bool FailingAllocation::failed() const { return until_failure < 0; }
bool FailingAllocation::is_due() {
  return until_failure.load(std::memory_order_relaxed) <= INT32_MAX && until_failure-- == 0;
}

size_t AllocationMeter::peak_nbytes() const { return static_cast<size_t>(peak - before); }

}  // namespace pteron::testing

void* operator new(size_t nbytes) {
  if (void* const block = pteron::testing::allocate(nbytes)) return block;
  throw std::bad_alloc();
}
void* operator new[](size_t nbytes) { return operator new(nbytes); }
void* operator new(size_t nbytes, const std::nothrow_t&) noexcept {
  return pteron::testing::allocate(nbytes);
}
void* operator new[](size_t nbytes, const std::nothrow_t&) noexcept {
  return pteron::testing::allocate(nbytes);
}
void operator delete(void* block) noexcept { pteron::testing::release(block); }
void operator delete[](void* block) noexcept { pteron::testing::release(block); }
void operator delete(void* block, size_t) noexcept { pteron::testing::release(block); }
void operator delete[](void* block, size_t) noexcept { pteron::testing::release(block); }
