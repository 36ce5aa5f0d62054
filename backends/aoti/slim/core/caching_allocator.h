// Host memory that is asked for again and again, as a model's intermediates are.
//
//   CachedBlock block = cached_allocate(nbytes);     // throws std::bad_alloc
//   cached_free(block);
//
// Sizes are rounded up to classes a quarter of a power of two apart. Blocks of up to
// kThreadBlockBytes come from and go to a cache of the calling thread, without a lock; larger ones,
// and what a thread's cache has no room for, go through one shared cache. That keeps as many large
// blocks as recent runs of the models that are loaded need (MemoryUse). So a model that runs again
// asks the system for nothing, and a large request is forgotten. Thread-safe; any thread may free a
// block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pteron::slim {

struct CachedBlock {
  void* data;  // aligned to kStorageAlignment
  uint32_t size_class;
};

inline constexpr size_t kThreadBlockBytes = 256 * 1024;

// Most bytes that one thread keeps for later, and the shared cache in blocks as small.
inline constexpr size_t kThreadCacheBytes = 8 * 1024 * 1024;

// How many large blocks the runs of one model need at once: the shared cache keeps so many. What no
// run needed among the last kRunsRemembered to twice as many is given back to the system.
//
//   const MemoryUse::Run run(use);     // on the thread that runs it
//
// One run at a time. When it is destroyed, what was kept for it alone goes, and what the calling
// thread keeps.
class MemoryUse final {
 public:
  static constexpr uint32_t kRunsRemembered = 16;

  MemoryUse() = default;
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  // Whose the calling thread's blocks are; null: nobody's. The reference is the thread's own.
  static MemoryUse*& current() noexcept;

  class Run final {
   public:
    explicit Run(MemoryUse& use)
        : use_(use), current_(current()), before_(std::exchange(current_, &use)) {}
    ~Run() {
      if (__builtin_expect(!use_.classes_.empty(), 0)) use_.end_run();
      current_ = before_;
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    MemoryUse& use_;
    MemoryUse*& current_;
    MemoryUse* const before_;
  };

 private:
  friend class SharedCache;
  struct Class {
    uint32_t size_class;
    uint32_t in_use, most;  // of this run; of those since what is kept was last decided
    uint32_t kept;          // as the shared cache counts it
  };
  void end_run() noexcept;

  std::vector<Class> classes_;  // that were used lately; the shared cache's lock guards it in a run
  uint32_t runs_ = 0;
};

CachedBlock cached_allocate(size_t nbytes);
void cached_free(CachedBlock block) noexcept;

// Gives back to the system what the shared cache and the calling thread keep.
void release_cached_memory() noexcept;

struct CachingAllocatorStats {
  uint64_t system_allocations;  // since the process started
  size_t shared_cached_bytes;
};
CachingAllocatorStats caching_allocator_stats();

}  // namespace pteron::slim
