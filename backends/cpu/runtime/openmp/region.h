// OpenMP parallel regions.
//
//   Error error = run_region([](void* data) { ...thread_num(), barrier()... }, &data, 4);
//
// The body runs once for each member of a team. A team always has the requested size, so results do
// not depend on load. The number of threads is independent: the calling thread is member 0, idle
// pool workers take other members, and a thread that finishes its member runs members that have not
// started, one after the other. A barrier needs all members at once: a thread that reaches one
// starts the remaining members there, each on its own stack. With as many callers as processors, or
// if no thread can be created, each caller computes alone.
//
// RunControl is polled at the start of a region and of each member, and at barriers: if the run was
// cancelled, the region fails with that error.
//
// A member may fail (fail_member, leave_member): its body ends without running destructors, the
// others end at their next barrier, and run_region() returns the first error.
//
// Members inherit the calling thread's denormal mode (denormals.h).
//
// A nested region has one member. Unless noted, functions may be called on any thread; outside
// regions a thread is member 0 of 1. No allocation and no lock, except in a thread's first regions
// and when the pool grows.
#pragma once

#include "pteron/runtime/core/error.h"

namespace pteron::cpu::openmp {

// Runs `body(data)` for each of `threads` members (0: max_threads()) and returns when all are done.
// `body` must not throw. On error the region's work is incomplete.
Error run_region(void (*body)(void*), void* data, int threads);

int thread_num();
int num_threads();
bool in_region();

// Default team size of the calling thread: default_threads(), until set to a value of at least 1.
int max_threads();
void set_max_threads(int threads);

// Returns when all members of the team have called it.
void barrier();
// True for the first member that reaches this `single` construct. All members reach all constructs
// in the same order.
bool begin_single();

// Records the failure of the calling member; outside a region returns false without effect. Then
// call leave_member(), with no pending destructor that must run.
bool fail_member(Error&& error) noexcept;
[[noreturn]] void leave_member();

}  // namespace pteron::cpu::openmp
