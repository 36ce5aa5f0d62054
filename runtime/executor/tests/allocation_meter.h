// What a piece of code takes from `operator new`, and what it does when there is no more.
//
//   AllocationMeter meter;                 // or (nbytes): more than so many at once are bad_alloc
//   auto program = Program::load(bytes);
//   EXPECT_LT(meter.peak_nbytes(), 1 << 20);
//
// Linking it replaces `operator new` in the process. Counts all threads, from construction on; one
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pteron::testing {

class AllocationMeter final {
 public:
  explicit AllocationMeter(size_t limit_nbytes = SIZE_MAX);
  ~AllocationMeter();
  AllocationMeter(const AllocationMeter&) = delete;
  AllocationMeter& operator=(const AllocationMeter&) = delete;

  // The most bytes at once, above those at construction.
  size_t peak_nbytes() const;
};

// Of all that operator new gave out.
int64_t live_nbytes();

// Makes one allocation fail: the one after `count` others, by any thread, from construction on. One at
// a time.
//
//   for (int64_t count = 0;; ++count) {
//     const FailingAllocation failing(count);
//     const Error error = step();
//     if (!failing.failed()) break;   // it makes `count` allocations
//   }
class FailingAllocation final {
 public:
  explicit FailingAllocation(int64_t count);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  bool failed() const;
  // Whether the allocation that is about to be made should fail; operator new asks.
  static bool is_due();
};

}  // namespace pteron::testing
