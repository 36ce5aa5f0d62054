// Ends a running execute(): by another thread, by a deadline, or by the caller's callback.
//
//   const RunControl::Scope scope(control, options, limits.run_time);
//   while (...) {
//     if (control.is_asked()) PTERON_RETURN_IF_ERROR(control.look());
//   }
//
// A poll is one relaxed load. With a deadline or a callback, each poll also reads a coarse clock,
// so a run ends up to 4 ms late.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "pteron/runtime/core/error.h"

namespace pteron {

struct ExecuteOptions {
  // Timeout in seconds, after which the run ends with TimedOut at its next poll; 0 or less: at the
  // first. In addition to Limits::run_time. NaN is an InvalidArgument.
  double timeout = std::numeric_limits<double>::infinity();
  // Callback, called at polls on the calling thread, every 50 ms at most. An error ends the run,
  // and execute() returns it. May be null.
  Error (*poll)(void* context) = nullptr;
  void* poll_context = nullptr;
};

class RunControl final {
 public:
  // Callable on any thread of the run.
  bool is_asked() const { return (state_.load(std::memory_order_relaxed) & kAsked) != 0; }
  // Cancelled or TimedOut if the run must end.
  Error look_from_other_thread() const;
  // The same, and calls ExecuteOptions::poll. On the calling thread only.
  Error look();

  // Cancels the current run at its next poll and returns true. Returns false if there is none;
  // later runs are not affected. Callable from any thread or a signal handler.
  bool cancel();

  // The control of this thread's current run, or null.
  static RunControl*& current();

  // What other threads contribute to the current run, counted while it is traced.
  struct Work {
    std::atomic<int64_t> cpu_ns{0};    // CPU time of other threads
    std::atomic<uint32_t> helpers{0};  // other threads in the current parallel region
    uint32_t threads = 1;              // most in one region; the calling thread's
  };
  // Null if the run is not traced.
  Work* work() const { return work_; }
  // Between runs.
  void set_work(Work* work) { work_ = work; }

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
  static constexpr uint64_t kTimed = 4;  // there is a deadline or a callback
  static constexpr uint64_t kAsked = kCancelled | kTimed;
  static constexpr uint64_t kOneRun = 8;

  // A run counter in the bits above the flags, so that cancel() never affects a later run.
  std::atomic<uint64_t> state_{0};
  int64_t deadline_ = std::numeric_limits<int64_t>::max();  // in nanoseconds
  double seconds_ = 0;                                      // whose limit the deadline is
  bool is_limit_ = false;                                   // run_time
  int64_t next_poll_ = 0;
  Work* work_ = nullptr;
  ExecuteOptions options_;
};

}  // namespace pteron
