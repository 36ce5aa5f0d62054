// The threads that parallel regions share, one pool for the process.
//
//   // A caller offers the members 1..3 of its team; whoever is idle takes one each.
//   Worker* workers[3];
//   int taken = ThreadPool::get().offer(team, 1, 3, workers, &any_asleep);
//   ...
//   if (workers[0]->take_back(team, 1)) run_it_here();     // it has not begun yet
//
// A worker is one word: idle, asleep, busy, or a job that nobody has begun. Callers and the worker
// change it by compare-and-swap, so an offer is one atomic operation, and one system call more if
// the worker sleeps. Workers are made when they are first wanted, one fewer than the processors,
// since callers work too. They stay for the life of the process, asleep when there is nothing to
// do, and take no signals. A child process after fork() has none and makes its own. Where the system
// gives no thread, a warning says so once.
//
// Thread-safe. No allocation and no lock, but where a thread is made.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cpu::openmp {

class Team;
class Worker;

// What a worker does with a job. It calls worker.set_idle() before its last write to the team,
// after which the team serves other regions. Returns whether the worker would keep
// a core from the team if it waited awake now: the team has more members than there are processors,
// or its owner began the region on the worker's processor.
bool run_member_on(Worker& worker, Team& team, int member) noexcept;

class alignas(64) Worker final {
 public:
  // Withdraws an offer. True: the worker will not begin it. False: it has begun.
  bool take_back(Team& team, int member);

  // For the worker's own thread.
  void set_idle() { job_.store(kIdle, std::memory_order_release); }

 private:
  friend class ThreadPool;
  // A job is a team's address with the member's number in the 16 bits that addresses do not use.
  // Teams are aligned to 64 bytes, so no job's lower half, on which workers sleep, equals one of
  // these.
  static constexpr uint64_t kIdle = 1, kAsleep = 2, kBusy = 3;
  static uint64_t make_job(Team& team, int member);

  // True: it will run the job. `*was_asleep` is set, and never cleared.
  bool offer(uint64_t job, bool* was_asleep);
  // Has the sleeping worker wake up on another processor than this one, if there is one that it may
  // run on. The system likes to wake a thread where the waking one runs, above all in a virtual
  // machine, where it takes sleeping processors for ones that somebody else uses; there the two
  // would take turns.
  void keep_off(int processor);
  uint64_t wait_for_job(bool is_in_the_way);
  void run_forever();

  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::atomic<uint64_t> job_{kBusy};
  // Of whoever made it busy: the worker, and before it whoever wakes it.
  pid_t thread_id_ = 0;
  bool is_kept_off_ = false;
  cpu_set_t allowed_{};  // where it may run while it is not kept off
};

class ThreadPool final {
 public:
  static ThreadPool& get();

  // Offers members first, first + 1, ... of `team`, at most `count`, to idle ones of the first
  // `limit` workers, those at `*start` and behind it first. Writes the workers of the offered ones to `workers` and returns
  // how many; `*start` becomes the first of them. `*any_asleep`: one of them has to wake up.
  int offer(Team& team, int first, int count, int limit, Worker** workers, unsigned* start,
            bool* any_asleep);

  // Threads made so far.
  int num_workers() const { return num_workers_.load(std::memory_order_acquire); }

 private:
  constexpr ThreadPool() = default;
  // Null: there are as many, or the system gives none.
  Worker* start_worker(uint64_t job, int limit);
  static void* thread_main(void* worker);
  static void after_fork_in_child();

  std::atomic<int> num_workers_{0};
  std::atomic<Worker*> workers_[kMaxTeam] = {};  // never deleted
  ForkMutex mutex_;                              // held while a thread is made
  std::atomic<int> wait_{0};                     // for so many more requests none is made
  bool has_warned_ = false;
};

}  // namespace pteron::cpu::openmp
