// A running parallel region: its members, barriers and error.
//
// Internal to this folder; see region.h. Teams are never deleted but reused, so that a late wake-up
// call always touches a valid team.
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

// A member's state, on its stack.
struct Member {
  Team* team = nullptr;  // null: alone
  int index = 0;
  int size = 1;
  unsigned singles = 0;  // it has reached
  Member* root = this;   // of the outermost region
  Error error;           // of an outermost region without a team
  jmp_buf escape;        // in the root: where leave_member() goes

  // Members that share a thread form a ring; all but one of them wait.
  Member* next = this;
  bool is_at_barrier = false;
  bool has_ended = false;
  uint32_t generation = 0;  // the barrier of is_at_barrier
  Fiber fiber;
};

struct ThreadState {
  Member* member = nullptr;
  int max_threads = 0;   // 0: the default
  Team* team = nullptr;  // served this thread's last region; others may use it meanwhile
  int starting = 0;      // the member whose fiber starts
  // Worker limit after other callers were seen, and when it expires, in nanoseconds.
  int64_t shares_until = 0;
  int shared_workers = 0;
  SpinThenPark spin_then_park;
};
ThreadState& thread_state();

class alignas(64) Team final {
 public:
  // An unused team, preferably the thread's last one.
  static Team& acquire(ThreadState& thread);
  void release() { in_use_.store(false, std::memory_order_release); }
  // After fork() the threads that used them are gone.
  static void release_all();

  // Called by the owner: runs all members, member 0 on this thread. `control` may be null.
  Error run(void (*body)(void*), void* data, int size, const RunControl* control);

  // Called by members. barrier(): false if a member has failed; the caller must leave.
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
  // False if the run was cancelled; the region has then failed.
  bool goes_on();
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  bool is_over(uint32_t generation) const {
    return generation_.load(std::memory_order_acquire) != generation || has_failed();
  }
  void run_unassigned_to_barrier(Member& member);
  static void run_fiber();
  void let_others_run(Member& member);

  static constexpr uint32_t kOwnerSleeps = uint32_t{1} << 31;

  // Written by the owner before members start; the rest of the cache line changes rarely.
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
  const RunControl* control_ = nullptr;
  int size_ = 0;
  int processor_ = -1;               // of the owner at the start of the region
  bool flushes_denormals_ = false;   // the owner's mode, inherited by all members
  std::atomic<int> next_member_{0};  // members from here to size_ have not started
  std::atomic<bool> failed_{false};

  // Unfinished members, without the owner.
  alignas(64) std::atomic<uint32_t> pending_{0};

  alignas(64) std::atomic<int> arrived_{0};  // at the barrier
  std::atomic<uint32_t> generation_{0};      // of barriers
  std::atomic<int> sleepers_{0};             // at the barrier
  std::atomic<unsigned> singles_{0};         // number of constructs started

  // For the owner.
  alignas(64) std::atomic<bool> in_use_{true};
  unsigned first_worker_ = 0;  // workers found idle by the last region
  int num_workers_ = 0;        // workers of this region
  bool late_ = false;          // workers did not start the last region's offers
  std::unique_ptr<Worker*[]> workers_;
  std::atomic<bool> has_error_{false};
  Error error_;  // of the member that set has_error_
  Team* next_ = nullptr;
};

}  // namespace pteron::cpu::openmp
