#include "pteron/runtime/core/run_control.h"

#include <time.h>

#include <algorithm>

#include "pteron/runtime/core/limits.h"

namespace pteron {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kPollInterval = 50'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Longer means no deadline; 30 years fit the clock.
constexpr double kLongest = 1e9;

int64_t now() {
#if defined(CLOCK_MONOTONIC_COARSE)
  constexpr clockid_t kClock =
      CLOCK_MONOTONIC_COARSE;  // takes a quarter of the time of CLOCK_MONOTONIC
#else
  constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  timespec time;
  ::clock_gettime(kClock, &time);
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

}  // namespace

RunControl*& RunControl::current() {
  static thread_local RunControl* control = nullptr;
  return control;
}

RunControl::Scope::Scope(RunControl& control, const ExecuteOptions& options, double run_time)
    : control_(control), before_(current()) {
  control.options_ = options;
  control.next_poll_ = 0;
  control.deadline_ = kNever;
  control.is_limit_ = run_time < options.timeout;
  control.seconds_ = std::min(run_time, options.timeout);
  if (control.seconds_ < kLongest) {
    const double seconds = std::max(control.seconds_, 0.0);
    control.deadline_ = now() + static_cast<int64_t>(seconds * double{kSecond});
  }
  const bool is_timed = control.deadline_ != kNever || options.poll;
  const uint64_t runs = control.state_.load(std::memory_order_relaxed) / kOneRun + 1;
  control.state_.store(runs * kOneRun | kRunning | (is_timed ? kTimed : 0),
                       std::memory_order_release);
  current() = &control;
}

RunControl::Scope::~Scope() {
  current() = before_;
  const uint64_t runs = control_.state_.load(std::memory_order_relaxed) / kOneRun;
  control_.state_.store(runs * kOneRun, std::memory_order_release);
}

bool RunControl::cancel() {
  uint64_t state = state_.load(std::memory_order_acquire);
  const uint64_t run = state / kOneRun;
  while ((state & kRunning) && state / kOneRun == run) {
    if (state_.compare_exchange_weak(state, state | kCancelled, std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

Error RunControl::look_from_other_thread() const {
  PTERON_CHECK_OR_RETURN(!(state_.load(std::memory_order_acquire) & kCancelled), Error::Cancelled,
                         "cancel() ended the run");
  PTERON_CHECK_OR_RETURN(deadline_ == kNever || now() < deadline_, Error::TimedOut,
                         "the run took longer than %s, %g seconds; try a higher one",
                         is_limit_ ? "the limit run_time" : "the timeout of this call", seconds_);
  return Error::Ok;
}

Error RunControl::look() {
  PTERON_RETURN_IF_ERROR(look_from_other_thread());
  if (!options_.poll) return Error::Ok;
  const int64_t time = now();
  if (time < next_poll_) return Error::Ok;
  const bool is_first = next_poll_ == 0;  // short runs never poll
  next_poll_ = time + kPollInterval;
  if (is_first) return Error::Ok;
  Error error = options_.poll(options_.poll_context);
  if (!error.ok()) cancel();  // for other threads of the run
  return error;
}

Error Limits::check() const {
  PTERON_CHECK_OR_RETURN(run_time >= 0, Error::InvalidArgument,
                         "limit run_time: found %g, expected seconds from 0 on", run_time);
  return Error::Ok;
}

Error LoadBudget::take(uint64_t nbytes, const char* what) {
  PTERON_CHECK_OR_RETURN(nbytes <= left_, Error::MemoryAllocationFailed,
                         "%s takes a copy of %llu bytes; of the limit load_bytes, %llu, there are "
                         "%llu left. Use a higher limit if you trust the file",
                         what, static_cast<unsigned long long>(nbytes),
                         static_cast<unsigned long long>(limit_),
                         static_cast<unsigned long long>(left_));
  left_ -= nbytes;
  return Error::Ok;
}

}  // namespace pteron
