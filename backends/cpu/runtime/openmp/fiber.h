// Stacks that share a thread: one runs while the others wait.
//
//   bool began = here.start(main);     // main() runs on a stack of its own
//   ...                                // returns when somebody resumes `here`
//   there.resume(here);                // leaves `there`, which is running, for `here`
//   end_fiber(here);                   // main()'s last word
//
// For members of a team that wait for each other and have no thread each. Not thread-safe: a fiber
// stays on its thread. A thread keeps the stacks it has made, so that no memory is asked for in the
// long run.
#pragma once

#include <ucontext.h>

namespace pteron::cpu::openmp {

class Fiber;

// Leaves the running fiber, of which nothing is used again, for `next`.
[[noreturn]] void end_fiber(Fiber& next);

class Fiber final {
 public:
  // False: no memory for a stack.
  bool start(void (*main)());
  void resume(Fiber& other);

 private:
  friend void end_fiber(Fiber& next);
  void leave_for(void* stack, void* sanitizer_fiber, const ucontext_t& context);

  // While it waits. Not initialised: most are never left.
  ucontext_t context_;
  void* stack_;
  void* sanitizer_fiber_;
};

}  // namespace pteron::cpu::openmp
