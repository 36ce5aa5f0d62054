#include "pteron/backends/cpu/runtime/openmp/team.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "pteron/backends/cpu/runtime/openmp/denormals.h"
#include "pteron/backends/cpu/runtime/openmp/spin_then_park.h"

namespace pteron::cpu::openmp {
namespace {

// How often the owner polls for completion before it takes members itself, which disturbs workers
// that have just started.
constexpr int kLooks = 64;

// How long other callers are assumed to be active, in nanoseconds.
constexpr int64_t kSharing = 1'000'000;

thread_local ThreadState state;

// Counts the CPU time of a scope, on a thread that helps a traced run.
class HelperTime final {
 public:
  explicit HelperTime(RunControl::Work* work) : work_(work), start_(work ? now() : 0) {}
  ~HelperTime() {
    if (__builtin_expect(work_ == nullptr, 1)) return;
    work_->cpu_ns.fetch_add(now() - start_, std::memory_order_relaxed);
    work_->helpers.fetch_add(1, std::memory_order_relaxed);
  }
  HelperTime(const HelperTime&) = delete;
  HelperTime& operator=(const HelperTime&) = delete;

 private:
  static int64_t now() {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  RunControl::Work* const work_;
  const int64_t start_;
};

std::atomic<Team*> all_teams{nullptr};  // a list, each linked to the one before

// A separate frame for setjmp(): no variable lives across it.
__attribute__((noinline)) void run_body(Member& member, void (*body)(void*), void* data) {
  if (_setjmp(member.escape) == 0) body(data);
}

}  // namespace

ThreadState& thread_state() { return state; }

Team::Team() : workers_(new Worker*[static_cast<size_t>(std::max(1, num_processors() - 1))]) {}

Team& Team::acquire(ThreadState& thread) {
  const auto claim = [](Team* team) {
    return !team->in_use_.load(std::memory_order_relaxed) &&
           !team->in_use_.exchange(true, std::memory_order_acquire);
  };
  if (__builtin_expect(thread.team && claim(thread.team), 1)) return *thread.team;
  Team* team = all_teams.load(std::memory_order_acquire);
  while (team && !claim(team)) team = team->next_;
  if (!team) {
    team = new Team;
    team->next_ = all_teams.load(std::memory_order_relaxed);
    while (!all_teams.compare_exchange_weak(team->next_, team, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }
  thread.team = team;
  return *team;
}

void Team::release_all() {
  for (Team* team = all_teams.load(std::memory_order_acquire); team; team = team->next_) {
    team->failed_.store(false, std::memory_order_relaxed);
    team->has_error_.store(false, std::memory_order_relaxed);
    team->arrived_.store(0, std::memory_order_relaxed);
    team->sleepers_.store(0, std::memory_order_relaxed);
    team->release();
  }
}

Error Team::run(void (*body)(void*), void* data, int size, const RunControl* control) {
  body_ = body;
  data_ = data;
  control_ = control;
  size_ = size;
  processor_ = sched_getcpu();
  flushes_denormals_ = flushes_denormals();
  // Shared cache lines are written only if the value changes.
  if (next_member_.load(std::memory_order_relaxed) != size) {
    next_member_.store(size, std::memory_order_relaxed);
  }
  if (singles_.load(std::memory_order_relaxed) != 0) singles_.store(0, std::memory_order_relaxed);
  pending_.store(static_cast<uint32_t>(size - 1), std::memory_order_relaxed);

  bool any_asleep = false;
  num_workers_ = ThreadPool::get().offer(*this, 1, size - 1, useful_workers(thread_state()),
                                         workers_.get(), &first_worker_, &any_asleep);
  if (num_workers_ + 1 < size) {
    next_member_.store(num_workers_ + 1, std::memory_order_relaxed);
  }
  run_member(0);
  if (const int done = run_unassigned()) count_done(static_cast<uint32_t>(done));
  if (any_asleep || late_ || !is_done_soon()) {
    late_ = take_back_members();
    wait_until_done();
  }
  if (RunControl::Work* const work = control ? control->work() : nullptr) {
    work->threads = std::max(work->threads, 1 + work->helpers.exchange(0));
  }
  if (__builtin_expect(!failed_.load(std::memory_order_relaxed), 1)) return Error::Ok;
  failed_.store(false, std::memory_order_relaxed);
  has_error_.store(false, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  return std::exchange(error_, Error());
}

// Callers and workers together should not exceed the processors: waiting for a worker without a
// core takes longer than working alone. Other callers seen recently are assumed to start another
// region soon.
int Team::useful_workers(ThreadState& thread) const {
  const int most = num_processors() - 1;
  int workers = most;
  for (Team* team = all_teams.load(std::memory_order_acquire); team && workers > 0;
       team = team->next_) {
    if (team != this && team->in_use_.load(std::memory_order_relaxed)) --workers;
  }
  if (workers == most && thread.shares_until == 0) return workers;
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  if (workers < most) {
    thread.shares_until = now + kSharing;
    thread.shared_workers = workers;
  } else if (now >= thread.shares_until) {
    thread.shares_until = 0;
    return workers;
  }
  return thread.shared_workers;
}

bool Team::goes_on() {
  if (control_ && __builtin_expect(control_->is_asked(), 0)) {
    if (Error error = control_->look_from_other_thread(); !error.ok()) fail(std::move(error));
  }
  return !has_failed();
}

void Team::run_member(int index) {
  if (!goes_on()) return;
  Member member;
  member.team = this;
  member.index = index;
  member.size = size_;
  ThreadState& thread = thread_state();
  thread.member = &member;
  run_body(member, body_, data_);
  member.has_ended = true;
  while (__builtin_expect(member.next != &member, 0)) let_others_run(member);
  thread.member = nullptr;
}

int Team::run_unassigned() {
  int done = 0;
  while (next_member_.load(std::memory_order_relaxed) < size_) {
    const int index = next_member_.fetch_add(1, std::memory_order_relaxed);
    if (index >= size_) break;
    run_member(index);
    ++done;
  }
  return done;
}

bool run_member_on(Worker& worker, Team& team, int member) noexcept {
  set_flush_denormals(team.flushes_denormals_);
  int done = 1;
  {
    const HelperTime time(team.control_ ? team.control_->work() : nullptr);
    team.run_member(member);
    done += team.run_unassigned();
  }
  const bool is_in_the_way = team.is_crowded() || team.processor_ == sched_getcpu();
  // Done first, so that the owner's next region finds this worker idle.
  worker.set_idle();
  team.count_done(static_cast<uint32_t>(done));
  return is_in_the_way;
}

void Team::count_done(uint32_t members) {
  const uint32_t before = pending_.fetch_sub(members, std::memory_order_acq_rel);
  if (before == (members | kOwnerSleeps)) futex_wake(&pending_, 1);
}

bool Team::is_done_soon() const {
  for (int i = 0; i < kLooks; ++i) {
    if (pending_.load(std::memory_order_acquire) == 0) return true;
    cpu_relax();
  }
  return false;
}

// Workers that were asleep, or whose processor is busy, may be late; the last ones most likely.
bool Team::take_back_members() {
  bool any = false;
  for (int i = num_workers_; i >= 1; --i) {
    if (pending_.load(std::memory_order_acquire) == 0) break;
    if (!workers_[i - 1]->take_back(*this, i)) continue;
    any = true;
    run_member(i);
    count_done(1);
  }
  return any;
}

void Team::wait_until_done() {
  thread_state().spin_then_park.wait(
      [this] { return (pending_.load(std::memory_order_acquire) & ~kOwnerSleeps) == 0; },
      [this] {
        const uint32_t pending =
            pending_.fetch_or(kOwnerSleeps, std::memory_order_acq_rel) | kOwnerSleeps;
        if (pending != kOwnerSleeps) futex_wait(&pending_, pending);
      },
      is_crowded());
}

// Runs members that have not started, each until it waits as the caller is about to.
void Team::run_unassigned_to_barrier(Member& member) {
  while (next_member_.load(std::memory_order_relaxed) < size_) {
    ThreadState& thread = thread_state();
    thread.starting = next_member_.fetch_add(1, std::memory_order_relaxed);
    if (thread.starting >= size_) return;
    if (!member.fiber.start(&Team::run_fiber)) {
      fail(Error(Error::OutOfResources, "no memory for the stack of a parallel region's member"));
      count_done(1);
    }
    thread.member = &member;
  }
}

void Team::run_fiber() {
  ThreadState& thread = thread_state();
  Member* const starter = thread.member;
  Team& team = *starter->team;
  Member member;
  member.team = &team;
  member.index = thread.starting;
  member.size = team.size_;
  member.next = std::exchange(starter->next, &member);
  thread.member = &member;
  if (team.goes_on()) run_body(member, team.body_, team.data_);
  Member* before = &member;
  while (before->next != &member) before = before->next;
  before->next = member.next;
  team.count_done(1);
  end_fiber(member.next->fiber);
}

// For a member that must wait for others on its thread, or for the barrier.
void Team::let_others_run(Member& member) {
  for (Member* other = member.next; other != &member; other = other->next) {
    if (other->has_ended || (other->is_at_barrier && !is_over(other->generation))) continue;
    member.fiber.resume(other->fiber);
    thread_state().member = &member;
    return;
  }
  const uint32_t generation = member.has_ended ? member.next->generation : member.generation;
  thread_state().spin_then_park.wait([&] { return is_over(generation); },
                                     [&] {
                                       sleepers_.fetch_add(1, std::memory_order_seq_cst);
                                       futex_wait(&generation_, generation);
                                       sleepers_.fetch_sub(1, std::memory_order_relaxed);
                                     },
                                     is_crowded());
}

bool Team::barrier(Member& member) {
  run_unassigned_to_barrier(member);
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (!goes_on()) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake(&generation_, INT_MAX);
    return true;
  }
  member.generation = generation;
  member.is_at_barrier = true;
  while (!is_over(generation)) let_others_run(member);
  member.is_at_barrier = false;
  return !has_failed();
}

bool Team::begin_single(Member& member) {
  unsigned construct = member.singles++;
  return singles_.load(std::memory_order_relaxed) == construct &&
         singles_.compare_exchange_strong(construct, construct + 1, std::memory_order_relaxed);
}

void Team::fail(Error error) {
  if (!has_error_.exchange(true, std::memory_order_relaxed)) error_ = std::move(error);
  failed_.store(true, std::memory_order_seq_cst);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(&generation_, INT_MAX);
}

}  // namespace pteron::cpu::openmp
