#include "pteron/backends/cpu/runtime/openmp/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace pteron::cpu::openmp {
namespace {

// As large as a thread's stack; untouched pages take no memory.
constexpr size_t kStackNbytes = size_t{8} << 20;

// Header at the upper end of a stack.
struct Stack {
  Stack* next;
  void* sanitizer_fiber;
};

char* begin_of(Stack* stack) { return reinterpret_cast<char*>(stack + 1) - kStackNbytes; }

// Thread-local. Trivially constructible, so that access is free; the owner is created with the
// first stack.
thread_local Stack* free_stacks = nullptr;
thread_local Stack* running = nullptr;  // null: the thread's own

struct FreeStacks {
  ~FreeStacks() {
    while (Stack* const stack = free_stacks) {
      free_stacks = stack->next;
#ifdef __SANITIZE_THREAD__
      __tsan_destroy_fiber(stack->sanitizer_fiber);
#endif
      munmap(begin_of(stack), kStackNbytes);
    }
  }
};

Stack* take_stack() {
  static thread_local FreeStacks owner;
  (void)owner;
  if (Stack* const stack = free_stacks) {
    free_stacks = stack->next;
    return stack;
  }
  void* const begin = mmap(nullptr, kStackNbytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  (void)mprotect(begin, static_cast<size_t>(getpagesize()), PROT_NONE);  // it ends there
  auto* const stack =
      new (static_cast<char*>(begin) + kStackNbytes - sizeof(Stack)) Stack{nullptr, nullptr};
#ifdef __SANITIZE_THREAD__
  stack->sanitizer_fiber = __tsan_create_fiber(0);
#endif
  return stack;
}

void tell_sanitizer([[maybe_unused]] void* fiber) {
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(fiber, 0);
#endif
}

void* sanitizers_fiber() {
#ifdef __SANITIZE_THREAD__
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

}  // namespace

bool Fiber::start(void (*main)()) {
  Stack* const stack = take_stack();
  ucontext_t begin;
  if (!stack || getcontext(&begin) != 0) return false;
  begin.uc_stack.ss_sp = begin_of(stack);
  begin.uc_stack.ss_size = kStackNbytes - sizeof(Stack);
  begin.uc_link = nullptr;
  makecontext(&begin, main, 0);
  leave_for(stack, stack->sanitizer_fiber, begin);
  return true;
}

void Fiber::resume(Fiber& other) {
  leave_for(other.stack_, other.sanitizer_fiber_, other.context_);
}

void Fiber::leave_for(void* stack, void* sanitizer_fiber, const ucontext_t& context) {
  stack_ = running;
  sanitizer_fiber_ = sanitizers_fiber();
  running = static_cast<Stack*>(stack);
  tell_sanitizer(sanitizer_fiber);
  swapcontext(&context_, &context);
}

void end_fiber(Fiber& next) {
  running->next = free_stacks;
  free_stacks = running;
  running = static_cast<Stack*>(next.stack_);
  tell_sanitizer(next.sanitizer_fiber_);
  setcontext(&next.context_);
  __builtin_unreachable();
}

}  // namespace pteron::cpu::openmp
