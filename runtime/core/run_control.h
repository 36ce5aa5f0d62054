// How a run that goes on is told to end: by another thread, by a deadline, or by whoever called it.
//
//   const RunControl::Scope scope(control, options, limits.run_time);
//   while (...) {
//     if (control.is_asked()) PTERON_RETURN_IF_ERROR(control.look());
//   }
//
// Where nothing was asked for, a poll is one relaxed load. A run that has a deadline, or somebody to
// ask, reads a coarse clock at each poll: it ends up to 4 ms late.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "pteron/runtime/core/error.h"

namespace pteron {

struct ExecuteOptions {
  // Seconds from now after which the run ends with TimedOut, at its next poll; 0 or less: at the first.
  // Besides Limits::run_time. NaN is an InvalidArgument.
  double timeout = std::numeric_limits<double>::infinity();
  // Asked at polls on the calling thread, every 50 ms at most. An error ends the run, and is what
  // execute() returns. May be null.
  Error (*poll)(void* context) = nullptr;
  void* poll_context = nullptr;
};

class RunControl final {
 public:
  // Of any thread that works for the run.
  bool is_asked() const { return (state_.load(std::memory_order_relaxed) & kAsked) != 0; }
  // Cancelled or TimedOut if the run must end.
  Error look_from_other_thread() const;
  // The same, and asks ExecuteOptions::poll. Of the thread that runs.
  Error look();

  // Ends the run that goes on: true, and it will see that at its next poll. Without one nothing
  // happens, and nothing to the next one: false. Any thread, or a signal handler.
  bool cancel();

  // That of the run that this thread does; null if it does none.
  static RunControl*& current();

  // One run, on this thread.
  class Scope final {
   public:
    Scope(RunControl& control, const ExecuteOptions& options, double run_time);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RunControl& control_;
    RunControl* const before_;
  };

 private:
  static constexpr uint64_t kRunning = 1;
  static constexpr uint64_t kCancelled = 2;
  static constexpr uint64_t kTimed = 4;  // there is a deadline, or somebody to ask
  static constexpr uint64_t kAsked = kCancelled | kTimed;
  static constexpr uint64_t kOneRun = 8;

  // The count of runs above the flags, so that who cancels one never meets the next.
  std::atomic<uint64_t> state_{0};
  int64_t deadline_ = std::numeric_limits<int64_t>::max();  // in nanoseconds
  double seconds_ = 0;                                      // that the deadline is about
  bool is_limit_ = false;                                   // run_time
  int64_t next_poll_ = 0;
  ExecuteOptions options_;
};

}  // namespace pteron
