// The process-wide thread pool of parallel regions.
//
//   // A caller offers the members 1..3 of its team; idle workers take one each.
//   Worker* workers[3];
//   int taken = ThreadPool::get().offer(team, 1, 3, workers, &any_asleep);
//   ...
//   if (workers[0]->take_back(team, 1)) run_it_here();     // it has not begun yet
//
// A worker's state is one word: idle, asleep, busy, or a job that has not started. Callers and the
// worker change it by compare-and-swap, so an offer is one atomic operation, plus a system call if
// the worker sleeps. Workers are created on demand, at most one fewer than the processors, since
// callers work too. They live as long as the process, sleep when idle, and block all signals. A
// child process after fork() has none and creates its own. Failure to create a thread is logged
// once.
//
// Thread-safe. No allocation and no lock, except when a thread is created.
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

// Runs a job. Calls worker.set_idle() before its last write to the team, which may be reused
// afterwards. Returns whether the worker would take a core from the team by spinning: the team has
// more members than processors, or its owner started the region on the worker's processor.
bool run_member_on(Worker& worker, Team& team, int member) noexcept;

class alignas(64) Worker final {
 public:
  // Withdraws an offer. False if the worker has started it.
  bool take_back(Team& team, int member);

  // Called on the worker's own thread.
  void set_idle() { job_.store(kIdle, std::memory_order_release); }

 private:
  friend class ThreadPool;
  // A job is a team's address with the member index in the unused upper 16 bits. Teams are aligned
  // to 64 bytes, so a job's lower half, the futex word, never equals one of these.
  static constexpr uint64_t kIdle = 1, kAsleep = 2, kBusy = 3;
  static uint64_t make_job(Team& team, int member);

  // True: it will run the job. `*was_asleep` is set, and never cleared.
  bool offer(uint64_t job, bool* was_asleep);
  // Makes the sleeping worker wake up on another processor than this one, if its affinity allows.
  // Linux tends to wake a thread on the waker's processor, especially in a virtual machine, where
  // it considers sleeping processors as preempted; the two would then take turns.
  void keep_off(int processor);
  uint64_t wait_for_job(bool is_in_the_way);
  void run_forever();

  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::atomic<uint64_t> job_{kBusy};
  // Accessed by the worker while busy, and before that by the thread that wakes it.
  pid_t thread_id_ = 0;
  bool is_kept_off_ = false;
  cpu_set_t allowed_{};  // its original affinity mask
};

class ThreadPool final {
 public:
  static ThreadPool& get();

  // Offers members first, first + 1, ... of `team`, at most `count`, to idle workers among the
  // first `limit`, starting at `*start`. Writes the workers to `workers` and returns their number;
  // `*start` becomes the first of them. `*any_asleep`: one of them is asleep.
  int offer(Team& team, int first, int count, int limit, Worker** workers, unsigned* start,
            bool* any_asleep);

  // Number of threads created.
  int num_workers() const { return num_workers_.load(std::memory_order_acquire); }

 private:
  constexpr ThreadPool() = default;
  // Null: the limit is reached, or thread creation failed.
  Worker* start_worker(uint64_t job, int limit);
  static void* thread_main(void* worker);
  static void after_fork_in_child();

  std::atomic<int> num_workers_{0};
  std::atomic<Worker*> workers_[kMaxTeam] = {};  // never deleted
  ForkMutex mutex_;                              // held while a thread is created
  std::atomic<int> wait_{0};                     // requests to skip before the next attempt
  bool has_warned_ = false;
};

}  // namespace pteron::cpu::openmp
