// Fibers: stacks that share a thread; one runs while the others wait.
//
//   bool began = here.start(main);     // main() runs on a stack of its own
//   ...                                // returns when `here` is resumed
//   there.resume(here);                // leaves `there`, which is running, for `here`
//   end_fiber(here);                   // main()'s last word
//
// For team members that wait for each other without a thread each. Not thread-safe: a fiber stays
// on its thread. A thread caches its stacks, so that nothing is allocated in a steady state.
#pragma once

#include <ucontext.h>

namespace pteron::cpu::openmp {

class Fiber;

// Switches from the running fiber, which is never resumed, to `next`.
[[noreturn]] void end_fiber(Fiber& next);

class Fiber final {
 public:
  // False: no memory for a stack.
  bool start(void (*main)());
  void resume(Fiber& other);

 private:
  friend void end_fiber(Fiber& next);
  void leave_for(void* stack, void* sanitizer_fiber, const ucontext_t& context);

  // Saved context while it waits. Not initialized: most fibers never switch.
  ucontext_t context_;
  void* stack_;
  void* sanitizer_fiber_;
};

}  // namespace pteron::cpu::openmp
