#include "pteron/backends/cpu/runtime/openmp/region.h"

#include <algorithm>
#include <utility>

#include "pteron/backends/cpu/runtime/openmp/critical.h"
#include "pteron/backends/cpu/runtime/openmp/team.h"
#include "pteron/runtime/core/catch_exceptions.h"

namespace pteron::cpu::openmp {
namespace {

Error run_alone(ThreadState& thread, void (*body)(void*), void* data) {
  Member member;
  thread.member = &member;
  if (_setjmp(member.escape) == 0) body(data);
  thread_state().member = nullptr;
  return std::move(member.error);
}

// A failure in here leaves the outermost region.
Error run_nested(ThreadState& thread, void (*body)(void*), void* data) {
  Member member;
  Member* const outer = thread.member;
  member.root = outer->root;
  thread.member = &member;
  body(data);
  thread.member = outer;
  return Error::Ok;
}

}  // namespace

Error run_region(void (*body)(void*), void* data, int threads) {
  ThreadState& thread = thread_state();
  if (__builtin_expect(thread.member != nullptr, 0)) return run_nested(thread, body, data);
  RunControl* const control = RunControl::current();
  if (control && __builtin_expect(control->is_asked(), 0)) PTERON_RETURN_IF_ERROR(control->look());
  const int size = std::min(threads > 0 ? threads : max_threads(), kMaxTeam);
  if (size == 1) return run_alone(thread, body, data);
  Team* team = nullptr;
  PTERON_RETURN_IF_ERROR(catch_exceptions([&]() -> Error {
    team = &Team::acquire(thread);
    return Error::Ok;
  }));
  Error error = team->run(body, data, size, control);
  team->release();
  return error;
}

int thread_num() {
  const Member* member = thread_state().member;
  return member ? member->index : 0;
}

int num_threads() {
  const Member* member = thread_state().member;
  return member ? member->size : 1;
}

bool in_region() {
  const Member* member = thread_state().member;
  return member && (member->size > 1 || member->root->size > 1);
}

int max_threads() {
  const int threads = thread_state().max_threads;
  return threads > 0 ? threads : default_threads();
}

void set_max_threads(int threads) { thread_state().max_threads = std::clamp(threads, 1, kMaxTeam); }

void barrier() {
  Member* member = thread_state().member;
  if (!member || !member->team) return;
  if (!member->team->barrier(*member)) leave_member();
}

bool begin_single() {
  Member* member = thread_state().member;
  return !member || !member->team || member->team->begin_single(*member);
}

bool fail_member(Error&& error) noexcept {
  Member* member = thread_state().member;
  if (!member) return false;
  if (Team* team = member->root->team) {
    team->fail(std::move(error));
  } else {
    member->root->error = std::move(error);
  }
  return true;
}

void leave_member() {
  leave_all_criticals();
  _longjmp(thread_state().member->root->escape, 1);
}

}  // namespace pteron::cpu::openmp
