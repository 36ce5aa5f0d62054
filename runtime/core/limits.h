// Resource limits of a program.
//
//   LoadOptions options;
//   options.limits.run_time = 0.5;
//   options.limits.planned_bytes = 64 << 20;
//
// Allocations of running delegates are not counted, and delegates poll only at parts of parallel
// regions (see the threat model in SECURITY.md). Zero is a limit too.
#pragma once

#include <cstdint>
#include <limits>

#include "pteron/runtime/core/error.h"

namespace pteron {

struct Limits {
  // Maximum seconds of one execute(), which then fails with TimedOut. No limit by default.
  double run_time = std::numeric_limits<double>::infinity();
  // Maximum instructions of one execute(), which then fails with OutOfResources, since a file may
  // contain an endless loop. A delegate call is one instruction, and so is a jump.
  uint64_t instructions = 10'000'000;
  // Maximum bytes of a method's tensors on all devices: pools of planned memory, mutable buffers
  // (also those already in the session), and outputs (also in lists) at their upper bounds, counted
  // once per return, except that a planned output's first return is not counted. Checked before
  // anything is allocated: MemoryAllocationFailed. Unplanned inputs belong to the caller and are
  // not counted.
  uint64_t planned_bytes = std::numeric_limits<uint64_t>::max();
  // Maximum bytes that opening a program, and loading a method, may each copy: files in memory that
  // cannot be used in place (in Python also those read from a file object), native code of
  // delegates, and weights that are not used from the mapped file (on a GPU). Checked before the
  // copy: MemoryAllocationFailed. Tables are not counted: their size is bounded by the file's
  // structure.
  uint64_t load_bytes = std::numeric_limits<uint64_t>::max();

  // InvalidArgument: run_time is negative or NaN.
  Error check() const;
};

// The remainder of Limits::load_bytes in one load.
class LoadBudget final {
 public:
  explicit LoadBudget(uint64_t limit) : limit_(limit), left_(limit) {}

  // MemoryAllocationFailed, without effect, if fewer than `nbytes` are left. `what` names the use
  // in the message.
  Error take(uint64_t nbytes, const char* what);

 private:
  uint64_t limit_;
  uint64_t left_;
};

}  // namespace pteron
