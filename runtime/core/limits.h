// What a program may use.
//
//   LoadOptions options;
//   options.limits.run_time = 0.5;
//   options.limits.planned_bytes = 64 << 20;
//
// What delegates allocate while they run is not counted, and what they do is polled at the parts of
// parallel regions only (SECURITY.md says who must be trusted). Zero is a limit, too.
#pragma once

#include <cstdint>
#include <limits>

#include "pteron/runtime/core/error.h"

namespace pteron {

struct Limits {
  // Seconds that one execute() may take, after which it fails with TimedOut. Without a limit unless
  // said: how long a model takes is for its caller to know.
  double run_time = std::numeric_limits<double>::infinity();
  // Instructions that one execute() may run, since a loop in a file may have no end; it fails with
  // OutOfResources. A delegate is one instruction, and so is a turn of nothing but a jump.
  uint64_t instructions = 10'000'000;
  // Bytes of a method's tensors, all devices together: its pools of planned memory, its mutable
  // buffers (also where they are in the session already), and its outputs, tensors in lists too,
  // at their upper bounds, as often as they are returned; but the first time that a planned one is.
  // What a method needs is compared before anything is allocated: MemoryAllocationFailed.
  // Other inputs than planned ones are the caller's.
  uint64_t planned_bytes = std::numeric_limits<uint64_t>::max();
  // Bytes that opening a program, and that loading a method, may each copy: files in memory that
  // cannot be used in place (Python: or are read from a file object), delegates' native code, and
  // weights that a delegate does not use where the file is mapped (those on a GPU).
  // MemoryAllocationFailed, before the copy is made. Tables for what the file lists are not counted:
  // their size is bounded by that of the file's structure.
  uint64_t load_bytes = std::numeric_limits<uint64_t>::max();

  // InvalidArgument: run_time is negative or no number.
  Error check() const;
};

// What is left of Limits::load_bytes in one load.
class LoadBudget final {
 public:
  explicit LoadBudget(uint64_t limit) : limit_(limit), left_(limit) {}

  // MemoryAllocationFailed, and nothing is taken, if there are not `nbytes`. `what` says for what.
  Error take(uint64_t nbytes, const char* what);

 private:
  uint64_t limit_;
  uint64_t left_;
};

}  // namespace pteron
