// Threads of a kernel that take turns on one thread of the host.
//
//   Error error = run_in_lockstep(count, [&](uint32_t thread) { ... kernel of that thread ... });
//
// Each has a stack of its own. It runs until it waits, at a barrier or for the values of its SIMD
// group, or returns; those that wait go on when all of the group have come to the barrier, or when
// all of the SIMD group wait or have returned. A barrier that some do not come to, since they have
// returned, is an error, and then the group's other threads are given up. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "pteron/runtime/core/error.h"

namespace pteron::metal {

// Of metal_stdlib.h, to kernels.
struct MslHost {
  void (*barrier)();
  const void* (*exchange)(const void* value, size_t nbytes, uint32_t* active);
  uint32_t (*lane)();
};
const MslHost* msl_host();

Error run_in_lockstep(uint32_t count, const std::function<void(uint32_t thread)>& kernel);

}  // namespace pteron::metal
