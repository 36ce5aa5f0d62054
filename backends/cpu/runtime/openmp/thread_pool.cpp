#include "pteron/backends/cpu/runtime/openmp/thread_pool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <type_traits>

#include "pteron/backends/cpu/runtime/openmp/team.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cpu::openmp {
namespace {

constexpr int kMemberShift = 48;
// A failed attempt takes as long as many regions.
constexpr int kRequestsBetweenTries = 1000;
constexpr uint64_t kTeamMask = (uint64_t{1} << kMemberShift) - 1;

// Parked threads need their code: keeps this library loaded.
void keep_this_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&keep_this_library), &info) && info.dli_fname) {
    (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace

// --- Worker ---

uint64_t Worker::make_job(Team& team, int member) {
  static_assert(alignof(Team) >= 64);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&team)) | static_cast<uint64_t>(member)
                                                                         << kMemberShift;
}

bool Worker::offer(uint64_t job, bool* was_asleep) {
  uint64_t state = job_.load(std::memory_order_relaxed);
  while (state == kIdle || state == kAsleep) {
    if (!job_.compare_exchange_weak(state, state == kIdle ? job : kBusy, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      continue;
    }
    if (state == kAsleep) {
      *was_asleep = true;
      keep_off(sched_getcpu());
      job_.store(job, std::memory_order_release);
      futex_wake(&job_, 1);
    }
    return true;
  }
  return false;
}

void Worker::keep_off(int processor) {
  if (!is_kept_off_ && sched_getaffinity(thread_id_, sizeof(allowed_), &allowed_) != 0) return;
  cpu_set_t others = allowed_;
  if (processor >= 0) CPU_CLR(static_cast<size_t>(processor), &others);
  if (sched_setaffinity(thread_id_, sizeof(others), &others) == 0) is_kept_off_ = true;
}

bool Worker::take_back(Team& team, int member) {
  uint64_t job = make_job(team, member);
  return job_.load(std::memory_order_relaxed) == job &&
         job_.compare_exchange_strong(job, kIdle, std::memory_order_acquire,
                                      std::memory_order_relaxed);
}

uint64_t Worker::wait_for_job(bool is_in_the_way) {
  uint64_t state = kIdle;
  const auto has_job = [&] {
    state = job_.load(std::memory_order_relaxed);
    return state > kBusy;
  };
  const auto sleep = [&] {
    uint64_t idle = kIdle;
    job_.compare_exchange_strong(idle, kAsleep, std::memory_order_release,
                                 std::memory_order_relaxed);
    futex_wait(&job_, kAsleep);  // unless it has a job by now
  };
  do {
    if (!spin_until(has_job, is_in_the_way ? kShortSpin : kLongSpin)) {
      while (!has_job()) sleep();
    }
  } while (!job_.compare_exchange_strong(
      state, kBusy, std::memory_order_acquire,
      std::memory_order_relaxed));  // otherwise the offer was withdrawn
  if (is_kept_off_) {
    is_kept_off_ = false;
    (void)sched_setaffinity(0, sizeof(allowed_), &allowed_);
  }
  return state;
}

void Worker::run_forever() {
  thread_id_ = static_cast<pid_t>(syscall(SYS_gettid));
  bool is_in_the_way = num_processors() == 1;
  for (;;) {
    const uint64_t job = wait_for_job(is_in_the_way);
    Team& team = *reinterpret_cast<Team*>(static_cast<uintptr_t>(job & kTeamMask));
    is_in_the_way = run_member_on(*this, team, static_cast<int>(job >> kMemberShift));
  }
}

// --- ThreadPool ---

ThreadPool& ThreadPool::get() {
  // Never destroyed: workers access it until the process exits.
  static_assert(std::is_trivially_destructible_v<ThreadPool>);
  static ThreadPool pool;
  return pool;
}

int ThreadPool::offer(Team& team, int first, int count, int limit, Worker** workers,
                      unsigned* start, bool* any_asleep) {
  limit = std::min(limit, kMaxTeam);
  const int num_workers = std::min(num_workers_.load(std::memory_order_acquire), limit);
  int taken = 0;
  unsigned at = *start;
  for (int looked = 0; looked < num_workers && taken < count; ++looked, ++at) {
    if (at >= static_cast<unsigned>(num_workers)) at = 0;
    Worker* worker = workers_[at].load(std::memory_order_relaxed);
    if (!worker->offer(Worker::make_job(team, first + taken), any_asleep)) continue;
    if (taken == 0) *start = at;
    workers[taken++] = worker;
  }
  // Creates missing workers, up to the limit; if that fails, fewer take part.
  while (taken < count && num_workers_.load(std::memory_order_relaxed) < limit) {
    Worker* const worker = start_worker(Worker::make_job(team, first + taken), limit);
    if (!worker) break;
    *any_asleep = true;
    workers[taken++] = worker;
  }
  return taken;
}

Worker* ThreadPool::start_worker(uint64_t job, int limit) {
  if (wait_.load(std::memory_order_relaxed) > 0) {
    wait_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  std::lock_guard<ForkMutex> lock(mutex_);
  const int index = num_workers_.load(std::memory_order_relaxed);
  if (index >= limit) return nullptr;
  if (index == 0) {
    [[maybe_unused]] static const int hooked =
        pthread_atfork(nullptr, nullptr, after_fork_in_child);
    keep_this_library();
  }
  Worker* worker = workers_[index].load(std::memory_order_relaxed);  // not null in a child process
  if (!worker) worker = new (std::nothrow) Worker;
  if (!worker) return nullptr;
  worker->job_.store(job, std::memory_order_relaxed);
  worker->is_kept_off_ = false;
  workers_[index].store(worker, std::memory_order_relaxed);

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failure = pthread_create(&thread, nullptr, thread_main, worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    wait_.store(kRequestsBetweenTries, std::memory_order_relaxed);
    if (!has_warned_) {
      PTERON_LOG(Warning,
                 "cannot create more than %d threads for parallel regions (%s): they run on "
                 "fewer threads than they could, with the same results",
                 index, std::generic_category().message(failure).c_str());
    }
    has_warned_ = true;
    return nullptr;
  }
  pthread_setname_np(thread, "pteron-worker");
  pthread_detach(thread);
  num_workers_.store(index + 1, std::memory_order_release);
  return worker;
}

void* ThreadPool::thread_main(void* worker) {
  static_cast<Worker*>(worker)->run_forever();
  return nullptr;
}

// Only the calling thread exists, and it is outside any region.
void ThreadPool::after_fork_in_child() {
  get().num_workers_.store(0, std::memory_order_relaxed);
  Team::release_all();
}

}  // namespace pteron::cpu::openmp
