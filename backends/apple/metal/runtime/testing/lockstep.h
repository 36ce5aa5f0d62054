// Runs the threads of a kernel cooperatively on one host thread.
//
//   Error error = run_in_lockstep(count, [&](uint32_t thread) { ... kernel of that thread ... });
//
// Each has its own stack. It runs until it waits (at a barrier, or for its SIMD group) or returns.
// Waiting threads continue when all of the threadgroup have reached the barrier, or when all of the
// SIMD group wait or have returned. A barrier that some threads never reach is an error, and the
// group's other threads are abandoned. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "pteron/runtime/core/error.h"

namespace pteron::metal {

// Interface of metal_stdlib.h for kernels.
struct MslHost {
  void (*barrier)();
  const void* (*exchange)(const void* value, size_t nbytes, uint32_t* active);
  uint32_t (*lane)();
};
const MslHost* msl_host();

Error run_in_lockstep(uint32_t count, const std::function<void(uint32_t thread)>& kernel);

}  // namespace pteron::metal
