#include "pteron/backends/apple/metal/runtime/testing/lockstep.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstring>
#include <vector>

namespace pteron::metal {
namespace {

constexpr uint32_t kLanes = 32, kMostThreads = 1024;
constexpr size_t kStackBytes = 128 << 10;

enum class State { kRuns, kAtBarrier, kShows, kReturned };

struct Fiber {
  ucontext_t context;
  State state = State::kReturned;
  char value[16];
};

struct Group {
  std::vector<Fiber> fibers = std::vector<Fiber>(kMostThreads);
  char* stacks = nullptr;
  ucontext_t scheduler;
  uint32_t count = 0, current = 0;
  const std::function<void(uint32_t)>* kernel = nullptr;
  char shown[kMostThreads / kLanes][kLanes][16];
  uint32_t active[kMostThreads / kLanes];
};

Group& group() {
  static Group& group = *new Group;
  return group;
}

void wait(State state) {
  Group& g = group();
  Fiber& fiber = g.fibers[g.current];
  fiber.state = state;
  swapcontext(&fiber.context, &g.scheduler);
}

void start() {
  Group& g = group();
  (*g.kernel)(g.current);
  g.fibers[g.current].state = State::kReturned;
}  // returns to uc_link, the scheduler

void barrier() { wait(State::kAtBarrier); }

const void* exchange(const void* value, size_t nbytes, uint32_t* active) {
  Group& g = group();
  std::memcpy(g.fibers[g.current].value, value, nbytes);
  wait(State::kShows);
  const uint32_t simd = g.current / kLanes;
  *active = g.active[simd];
  return g.shown[simd];
}

uint32_t lane() { return group().current % kLanes; }

// Whether some SIMD group can continue.
bool show_values(Group& g) {
  bool any = false;
  for (uint32_t first = 0; first < g.count; first += kLanes) {
    const uint32_t end = first + kLanes < g.count ? first + kLanes : g.count;
    uint32_t active = 0;
    for (uint32_t i = first; i < end; ++i) {
      if (g.fibers[i].state == State::kShows) active |= 1u << (i - first);
    }
    if (!active) continue;
    any = true;
    g.active[first / kLanes] = active;
    for (uint32_t i = first; i < end; ++i) {
      if (g.fibers[i].state != State::kShows) continue;
      std::memcpy(g.shown[first / kLanes][i - first], g.fibers[i].value, 16);
      g.fibers[i].state = State::kRuns;
    }
  }
  return any;
}

}  // namespace

const MslHost* msl_host() {
  static const MslHost host = {barrier, exchange, lane};
  return &host;
}

Error run_in_lockstep(uint32_t count, const std::function<void(uint32_t)>& kernel) {
  Group& g = group();
  PTERON_CHECK_OR_RETURN(count <= kMostThreads, Error::InvalidArgument,
                         "a group of %u threads, expected at most %u", count, kMostThreads);
  if (!g.stacks) {
    void* memory = mmap(nullptr, kStackBytes * kMostThreads, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PTERON_CHECK_OR_RETURN(memory != MAP_FAILED, Error::MemoryAllocationFailed,
                           "no memory for the stacks of %u threads", kMostThreads);
    g.stacks = static_cast<char*>(memory);
  }
  g.count = count;
  g.kernel = &kernel;
  for (uint32_t i = 0; i < count; ++i) {
    Fiber& fiber = g.fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = g.stacks + i * kStackBytes;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &g.scheduler;
    makecontext(&fiber.context, start, 0);
    fiber.state = State::kRuns;
  }
  while (true) {
    for (g.current = 0; g.current < count; ++g.current) {
      Fiber& fiber = g.fibers[g.current];
      if (fiber.state == State::kRuns) swapcontext(&g.scheduler, &fiber.context);
    }
    if (show_values(g)) continue;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < count; ++i) waiting += g.fibers[i].state == State::kAtBarrier;
    if (waiting == 0) return Error::Ok;
    PTERON_CHECK_OR_RETURN(waiting == count, Error::InvalidState,
                           "%u of %u threads of a group wait at a barrier, and the others have "
                           "returned",
                           waiting, count);
    for (uint32_t i = 0; i < count; ++i) g.fibers[i].state = State::kRuns;
  }
}

}  // namespace pteron::metal
