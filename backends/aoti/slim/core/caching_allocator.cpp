#include "pteron/backends/aoti/slim/core/caching_allocator.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>

#include "pteron/backends/aoti/slim/core/storage.h"

namespace pteron::slim {
namespace {

// Class c holds (4 + c % 4) << (c / 4 + 4) bytes: 64, 80, 96, 112, 128, 160, ... all multiples of
// 16; blocks are laid out in multiples of kStorageAlignment anyway.
constexpr uint32_t kNumClasses = 4 * 56;

constexpr size_t class_bytes(uint32_t c) { return size_t{4 + c % 4} << (c / 4 + 4); }

uint32_t class_of(size_t nbytes) {
  if (nbytes <= 64) return 0;
  const int top = 63 - __builtin_clzll(nbytes - 1);  // nbytes - 1 in [2^top, 2^(top+1))
  const uint32_t quarter = static_cast<uint32_t>((nbytes - 1) >> (top - 2)) & 3;
  return static_cast<uint32_t>(top - 6) * 4 + quarter + 1;
}

constexpr uint32_t kNumThreadClasses = (18 - 6) * 4 + 1;
static_assert(class_bytes(kNumThreadClasses - 1) == kThreadBlockBytes);

// A free block holds the pointer to the next one.
struct FreeBlock {
  FreeBlock* next;
};

std::atomic<uint64_t> system_allocations{0};

void* system_allocate(size_t nbytes) {
  void* data = nullptr;
  if (posix_memalign(&data, kStorageAlignment, nbytes) != 0) return nullptr;
  system_allocations.fetch_add(1, std::memory_order_relaxed);
  return data;
}

class SharedCache {
 public:
  void* take(uint32_t c) {
    std::lock_guard<std::mutex> lock(mutex_);
    FreeBlock* block = heads_[c];
    if (!block) return nullptr;
    heads_[c] = block->next;
    bytes_ -= class_bytes(c);
    return block;
  }

  void give(void* data, uint32_t c) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (bytes_ + class_bytes(c) <= kSharedCacheBytes) {
        bytes_ += class_bytes(c);
        heads_[c] = new (data) FreeBlock{heads_[c]};
        return;
      }
    }
    std::free(data);
  }

  void release() {
    std::array<FreeBlock*, kNumClasses> heads{};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      heads.swap(heads_);
      bytes_ = 0;
    }
    for (FreeBlock* block : heads) {
      while (block) {
        FreeBlock* next = block->next;
        std::free(block);
        block = next;
      }
    }
  }

  size_t bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

  // Another thread may have been in the middle of something. What was kept is lost.
  void forget() { new (this) SharedCache; }

 private:
  std::mutex mutex_;
  std::array<FreeBlock*, kNumClasses> heads_{};
  size_t bytes_ = 0;
};

// Made before anything runs and never destroyed: threads and tensors may outlive static destruction.
SharedCache& shared_cache() {
  static_assert(std::is_trivially_destructible_v<SharedCache>);
  static SharedCache cache;
  return cache;
}

[[maybe_unused]] const int hooked =
    pthread_atfork(nullptr, nullptr, [] { shared_cache().forget(); });

struct ThreadCache {
  std::array<FreeBlock*, kNumThreadClasses> heads{};
  size_t bytes = 0;

  void release() {
    for (uint32_t c = 0; c < kNumThreadClasses; ++c) {
      while (FreeBlock* block = heads[c]) {
        heads[c] = block->next;
        shared_cache().give(block, c);
      }
    }
    bytes = 0;
  }
};

// The pointer is all that the fast path reads. It is null before a thread's first allocation and
// after its end, when blocks go through the shared cache.
thread_local ThreadCache* thread_cache = nullptr;

struct ThreadCacheOwner {
  ThreadCache cache;
  ThreadCacheOwner() { thread_cache = &cache; }
  ~ThreadCacheOwner() {
    thread_cache = nullptr;
    cache.release();
  }
};

void start_thread_cache() {
  static thread_local ThreadCacheOwner owner;
  (void)owner;
}

}  // namespace

CachedBlock cached_allocate(size_t nbytes) {
  if (nbytes > size_t{1} << 60) throw std::bad_alloc();
  const uint32_t c = class_of(nbytes);
  if (c < kNumThreadClasses) {
    ThreadCache* cache = thread_cache;
    if (__builtin_expect(cache == nullptr, 0)) {
      start_thread_cache();
      cache = thread_cache;  // still null while the thread ends
    }
    if (cache && cache->heads[c]) {
      FreeBlock* block = cache->heads[c];
      cache->heads[c] = block->next;
      cache->bytes -= class_bytes(c);
      return {block, c};
    }
  }
  if (void* data = shared_cache().take(c)) return {data, c};
  void* data = system_allocate(class_bytes(c));
  if (!data) {
    release_cached_memory();
    data = system_allocate(class_bytes(c));
    if (!data) throw std::bad_alloc();
  }
  return {data, c};
}

void cached_free(CachedBlock block) noexcept {
  const uint32_t c = block.size_class;
  if (c < kNumThreadClasses) {
    ThreadCache* cache = thread_cache;
    if (cache && cache->bytes + class_bytes(c) <= kThreadCacheBytes) {
      cache->bytes += class_bytes(c);
      cache->heads[c] = new (block.data) FreeBlock{cache->heads[c]};
      return;
    }
  }
  shared_cache().give(block.data, c);
}

void release_cached_memory() noexcept {
  if (thread_cache) thread_cache->release();
  shared_cache().release();
}

CachingAllocatorStats caching_allocator_stats() {
  return {system_allocations.load(std::memory_order_relaxed), shared_cache().bytes()};
}

}  // namespace pteron::slim
