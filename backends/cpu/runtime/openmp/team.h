// One parallel region that runs: its members, what they wait for, and the error that ended it.
//
// Not for use outside this folder; see region.h. Teams are never deleted and serve one region after
// the other, so that a thread that is late with a wake-up call touches a team, whosever it is.
#pragma once

#include <setjmp.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "pteron/backends/cpu/runtime/openmp/fiber.h"
#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"
#include "pteron/backends/cpu/runtime/openmp/thread_pool.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/run_control.h"

namespace pteron::cpu::openmp {

class Team;

// A thread inside a region's body; lives on its stack.
struct Member {
  Team* team = nullptr;  // null: alone
  int index = 0;
  int size = 1;
  unsigned singles = 0;  // that it has come to
  Member* root = this;   // of the outermost region
  Error error;           // of an outermost region without a team
  jmp_buf escape;        // in the root: where leave_member() goes

  // Members that share a thread are a ring, and all but one of them wait.
  Member* next = this;
  bool is_at_barrier = false;
  bool has_ended = false;
  uint32_t generation = 0;  // that is_at_barrier means
  Fiber fiber;
};

struct ThreadState {
  Member* member = nullptr;
  int max_threads = 0;   // 0: the default
  Team* team = nullptr;  // served this thread's last region; others may use it meanwhile
  int starting = 0;      // the member whose fiber begins
  // After other callers were seen, and until then, in nanoseconds: at most so many workers.
  int64_t shares_until = 0;
  int shared_workers = 0;
  SpinThenPark spin_then_park;
};
ThreadState& thread_state();

class alignas(64) Team final {
 public:
  // A team that nobody uses, the thread's last one if it can be.
  static Team& acquire(ThreadState& thread);
  void release() { in_use_.store(false, std::memory_order_release); }
  // In a new process the threads that used them are gone.
  static void release_all();

  // For the owner: runs all members, member 0 on this thread. `control` may be null.
  Error run(void (*body)(void*), void* data, int size, const RunControl* control);

  // For members. barrier(): false if a member has failed; the caller has to leave.
  bool barrier(Member& member);
  bool begin_single(Member& member);
  void fail(Error error);

 private:
  friend bool run_member_on(Worker& worker, Team& team, int member) noexcept;

  Team();
  void run_member(int index);
  int run_unassigned();
  void count_done(uint32_t members);
  bool take_back_members();
  void wait_until_done();
  bool is_done_soon() const;
  bool is_crowded() const { return size_ > num_processors(); }
  int useful_workers(ThreadState& thread) const;
  // Whether the region goes on; false if the run was told to end, and then the region has failed.
  bool goes_on();
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  bool is_over(uint32_t generation) const {
    return generation_.load(std::memory_order_acquire) != generation || has_failed();
  }
  void run_unassigned_to_barrier(Member& member);
  static void run_fiber();
  void let_others_run(Member& member);

  static constexpr uint32_t kOwnerSleeps = uint32_t{1} << 31;

  // Written by the owner before members begin; the rest of the line changes seldom.
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
  const RunControl* control_ = nullptr;
  int size_ = 0;
  int processor_ = -1;               // that the owner began the region on
  bool flushes_denormals_ = false;   // the owner; all members do as it does
  std::atomic<int> next_member_{0};  // from here to size_: nobody's yet
  std::atomic<bool> failed_{false};

  // Members, less the owner, that are not done.
  alignas(64) std::atomic<uint32_t> pending_{0};

  alignas(64) std::atomic<int> arrived_{0};  // at the barrier
  std::atomic<uint32_t> generation_{0};      // of barriers
  std::atomic<int> sleepers_{0};             // at the barrier
  std::atomic<unsigned> singles_{0};         // constructs that have been begun

  // For the owner.
  alignas(64) std::atomic<bool> in_use_{true};
  unsigned first_worker_ = 0;  // that the last region found idle
  int num_workers_ = 0;        // that this region has got
  bool late_ = false;          // workers did not begin what the last region offered them
  std::unique_ptr<Worker*[]> workers_;
  std::atomic<bool> has_error_{false};
  Error error_;  // of whoever set has_error_
  Team* next_ = nullptr;
};

}  // namespace pteron::cpu::openmp
