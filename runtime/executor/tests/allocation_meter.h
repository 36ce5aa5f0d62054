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

}  // namespace pteron::testing
