// Host memory that is asked for again and again, as a model's intermediates are.
//
//   CachedBlock block = cached_allocate(nbytes);     // throws std::bad_alloc
//   cached_free(block);
//
// Sizes are rounded up to classes a quarter of a power of two apart. Blocks of up to
// kThreadBlockBytes come from and go to a cache of the calling thread, without a lock; larger ones,
// and what a thread's cache has no room for, go through one shared cache. So a model that runs
// again asks the system for nothing. Thread-safe; any thread may free a block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pteron::slim {

struct CachedBlock {
  void* data;  // aligned to kStorageAlignment
  uint32_t size_class;
};

inline constexpr size_t kThreadBlockBytes = 256 * 1024;

// Most bytes that one thread, and the process as a whole, keep for later.
inline constexpr size_t kThreadCacheBytes = 8 * 1024 * 1024;
inline constexpr size_t kSharedCacheBytes = size_t{1} << 30;

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
