// A caching allocator for host memory, for blocks that are allocated repeatedly, such as a model's
// intermediates.
//
//   CachedBlock block = cached_allocate(nbytes);     // throws std::bad_alloc
//   cached_free(block);
//
// Sizes are rounded up to size classes, four per power of two. Blocks of up to kThreadBlockBytes
// use a lock-free per-thread cache; larger blocks, and overflow of a thread's cache, use one shared
// cache. The shared cache keeps as many large blocks as recent runs of the loaded models needed
// (MemoryUse). So repeated runs allocate nothing from the OS, and a single large request is not
// kept. Thread-safe; any thread may free a block.
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

// Maximum bytes that one thread caches, and that the shared cache holds in blocks of such sizes.
inline constexpr size_t kThreadCacheBytes = 8 * 1024 * 1024;

// Tracks how many large blocks the runs of one model use at once; the shared cache keeps that many.
// What none of the last kRunsRemembered (up to twice as many) runs needed is returned to the OS.
//
//   const MemoryUse::Run run(use);     // on the thread that runs it
//
// One run at a time. Its destructor frees blocks cached only for it, and the calling thread's
// cache.
class MemoryUse final {
 public:
  static constexpr uint32_t kRunsRemembered = 16;

  MemoryUse() = default;
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  // The MemoryUse that the calling thread's blocks are counted for, or null. Thread-local.
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
    uint32_t in_use, most;  // of this run; maximum since the counts were last updated
    uint32_t kept;          // as counted by the shared cache
  };
  void end_run() noexcept;

  std::vector<Class>
      classes_;  // classes used recently; guarded by the shared cache's lock during a run
  uint32_t runs_ = 0;
};

// A counter of the bytes in blocks that the calling thread allocates and frees, or null.
// Thread-local.
int64_t*& counted_bytes() noexcept;

CachedBlock cached_allocate(size_t nbytes);
void cached_free(CachedBlock block) noexcept;

// Returns the blocks of the shared cache and of the calling thread's cache to the OS.
void release_cached_memory() noexcept;

struct CachingAllocatorStats {
  uint64_t system_allocations;  // since the process started
  size_t shared_cached_bytes;
};
CachingAllocatorStats caching_allocator_stats();

}  // namespace pteron::slim
