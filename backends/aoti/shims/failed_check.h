// A failed assertion in the model ends the model's call, also inside a parallel region. So does an
// operator new of the model that finds no memory.
//
//   if (run_has_failed()) return take_run_failure();      // after the model's code has returned
//
// Outside parallel regions the assertion throws, which generated code expects and cleans up after.
// An exception that leaves a region would terminate the process. So in a region control leaves by
// the function that the OpenMP runtime registered, and the calling thread's run is marked as
// failed. From then on aoti_torch_get_data_ptr, which generated code calls for every kernel
// argument, fails, so that nothing is computed from what the region left unwritten.
//
// The mark is per thread, the one that runs the model.
#pragma once

#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

// How a parallel region is left.
struct RegionExit {
  // Takes the error if the calling thread is in a region; otherwise returns false without effect.
  bool (*fail)(Error* error) noexcept = nullptr;
  // Leaves the region without running destructors. Does not return.
  void (*leave)() = nullptr;
};

// Called by the OpenMP runtime in a static initializer. Returns true.
bool set_region_exit(RegionExit exit);
// Both are null without an OpenMP runtime.
const RegionExit& region_exit();

// Marks this thread's run as failed. Keeps the first error.
void fail_run(Error error) noexcept;
bool run_has_failed() noexcept;
// Returns the error and clears the mark. Ok if there was none.
Error take_run_failure();

}  // namespace pteron::aoti
