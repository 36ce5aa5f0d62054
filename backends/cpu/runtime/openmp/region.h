// Parallel regions, as OpenMP means them.
//
//   Error error = run_region([](void* data) { ...thread_num(), barrier()... }, &data, 4);
//
// The body runs once for each member of a team; what a member does depends on its number and on the
// size of the team, and the team always has the size that was asked for, so results do not depend
// on how busy the machine is. Threads are another matter: the calling thread is member 0, idle
// workers of the pool take the others, and members that no worker has begun when a thread is done
// with its own are run by that thread, one after the other. A barrier needs all members at once:
// a thread that comes to one begins there what nobody has begun, on a stack of its own. Where there
// are as many callers as processors, or no threads to be had, each computes alone.
//
// A run that was told to end (RunControl) is asked about at the beginning of a region, of each of
// its members, and at barriers: the region then fails with that error.
//
// A member may give up (fail_member, leave_member): its body ends there without running
// destructors, the others follow at their next barrier, and run_region() returns the first error.
//
// Members take denormals as the calling thread does (denormals.h).
//
// A region inside a region has one member. Functions without another note are for any thread;
// outside of regions a thread is member 0 of 1. No allocation and no lock, but for the first
// regions of a thread and the pool's growth.
#pragma once

#include "pteron/runtime/core/error.h"

namespace pteron::cpu::openmp {

// Runs `body(data)` for each of `threads` members (0: max_threads()) and returns when all are done.
// `body` must not throw. With an error the region did not do all of its work.
Error run_region(void (*body)(void*), void* data, int threads);

int thread_num();
int num_threads();
bool in_region();

// Members that regions of the calling thread have if they do not say: default_threads() until
// set, for this thread, to a number of at least 1.
int max_threads();
void set_max_threads(int threads);

// Returns when all members of the team have called it.
void barrier();
// True for the first member that comes to this `single` construct. All members come to all of them
// in one order.
bool begin_single();

// Gives up the calling member: notes why, in a region; false and no effect outside. Follow it by
// leave_member(), where no destructor is pending that has to run.
bool fail_member(Error error) noexcept;
[[noreturn]] void leave_member();

}  // namespace pteron::cpu::openmp
