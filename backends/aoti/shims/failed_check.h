// A check of the model that does not hold ends the model's call, wherever it stands.
//
//   if (run_has_failed()) return take_run_failure();      // after the model's code has returned
//
// Outside of parallel regions the check throws, which generated code expects and cleans up after.
// In a region it may not: compilers end the process there. Then the region is left on the way that
// its runtime registered, and the calling thread's run is marked as failed. From there on the run
// gets no data: aoti_torch_get_data_ptr, which generated code calls for all that it passes to a
// kernel, fails, and so does not compute with what the region left unwritten.
//
// The mark belongs to the thread that runs the model.
#pragma once

#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

// How a parallel region is left.
struct RegionExit {
  // Notes the error if the calling thread is in a region; false, and no effect, if not.
  bool (*fail)(Error error) noexcept = nullptr;
  // Leaves the region without running destructors. Does not return.
  void (*leave)() = nullptr;
};

// For the runtime of parallel regions, in a static initialiser. Returns true.
bool set_region_exit(RegionExit exit);
// Without a runtime both are null.
const RegionExit& region_exit();

// Marks this thread's run as failed. The first error counts.
void fail_run(Error error) noexcept;
bool run_has_failed() noexcept;
// The error, and the mark is gone. Ok if there was none.
Error take_run_failure();

}  // namespace pteron::aoti
