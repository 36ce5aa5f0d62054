#include "pteron/backends/aoti/slim/core/caching_allocator.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/platform/guard_pages.h"

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

// A free block stores the pointer to the next one.
struct FreeBlock {
  FreeBlock* next;
};

std::atomic<uint64_t> system_allocations{0};

constexpr size_t kHugePageBytes = 2 * 1024 * 1024;

// Large blocks use mmap: malloc would not return all of them to the OS.
constexpr bool is_large(uint32_t c) { return c >= kNumThreadClasses; }
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMapsLarge = false;  // AddressSanitizer tracks only malloc's blocks
#else
constexpr bool kMapsLarge = true;
#endif

// With guard pages exactly `nbytes`, and nothing is cached.
void* system_allocate(uint32_t c, size_t nbytes) {
  if (guard_pages() != GuardPages::kNone) return guarded_allocate(nbytes);
  void* data = nullptr;
  if (kMapsLarge && is_large(c)) {
    data =
        mmap(nullptr, class_bytes(c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
    // A hint: many pages of 4 KB do not fit the processor's table of translations.
    if (class_bytes(c) >= kHugePageBytes) (void)madvise(data, class_bytes(c), MADV_HUGEPAGE);
#endif
  } else if (posix_memalign(&data, kStorageAlignment, class_bytes(c)) != 0) {
    return nullptr;
  }
  system_allocations.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void system_free(void* data, uint32_t c) {
  if (kMapsLarge && is_large(c)) {
    munmap(data, class_bytes(c));
  } else {
    std::free(data);
  }
}

void system_free_all(FreeBlock* block, uint32_t c) {
  while (block) {
    FreeBlock* const next = block->next;
    system_free(block, c);
    block = next;
  }
}

thread_local MemoryUse* current_use = nullptr;
thread_local int64_t* counted = nullptr;

}  // namespace

class SharedCache {
 public:
  void* take(uint32_t c) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (current_use && is_large(c)) begin_use(*current_use, c);
    return pop(c);
  }

  void give(void* data, uint32_t c) {
    if (guard_pages() != GuardPages::kNone) return guarded_free(data);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (current_use && is_large(c)) end_use(*current_use, c);
      if (is_large(c) ? counts_[c] < kept_[c]
                      : small_bytes_ + class_bytes(c) <= kThreadCacheBytes) {
        ++counts_[c];
        (is_large(c) ? large_bytes_ : small_bytes_) += class_bytes(c);
        heads_[c] = new (data) FreeBlock{heads_[c]};
        return;
      }
    }
    system_free(data, c);
  }

  // Frees all cached blocks of classes `first` to `last`.
  void release(uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last; ++c) release_above(c, 0);
  }

  // Lowers the counts of `use` to what it needed since the last call; to nothing if it is
  // destroyed.
  void forget(MemoryUse& use, bool all) {
    for (MemoryUse::Class& each : use.classes_) {
      int64_t kept = 0;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        const uint32_t most = all ? 0 : std::exchange(each.most, 0);
        kept_[each.size_class] -= each.kept - most;
        each.kept = most;
        kept = kept_[each.size_class];
      }
      release_above(each.size_class, kept);
    }
    use.classes_.erase(std::remove_if(use.classes_.begin(), use.classes_.end(),
                                      [](const MemoryUse::Class& each) { return each.kept == 0; }),
                       use.classes_.end());
  }

  size_t bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    return small_bytes_ + large_bytes_;
  }

  // In a forked child: another thread may have held the lock. Cached blocks are leaked.
  void reset_after_fork() {
    new (&mutex_) std::mutex;
    heads_.fill(nullptr);
    counts_.fill(0);
    small_bytes_ = large_bytes_ = 0;
  }

 private:
  // All of these require the lock.
  FreeBlock* pop(uint32_t c) {
    FreeBlock* const block = heads_[c];
    if (!block) return nullptr;
    heads_[c] = block->next;
    --counts_[c];
    (is_large(c) ? large_bytes_ : small_bytes_) -= class_bytes(c);
    return block;
  }
  static MemoryUse::Class* find(MemoryUse& use, uint32_t c) {
    for (MemoryUse::Class& each : use.classes_) {
      if (each.size_class == c) return &each;
    }
    return nullptr;
  }
  void begin_use(MemoryUse& use, uint32_t c) {
    MemoryUse::Class* each = find(use, c);
    if (!each) each = &use.classes_.emplace_back(MemoryUse::Class{c, 0, 0, 0});
    each->most = std::max(each->most, ++each->in_use);
    if (each->most <= each->kept) return;
    kept_[c] += each->most - each->kept;
    each->kept = each->most;
  }
  static void end_use(MemoryUse& use, uint32_t c) {
    MemoryUse::Class* const each = find(use, c);
    if (each && each->in_use > 0) --each->in_use;
  }

  // Without the lock.
  void release_above(uint32_t c, int64_t count) {
    FreeBlock* surplus = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (counts_[c] > count) {
        FreeBlock* const block = pop(c);
        block->next = surplus;
        surplus = block;
      }
    }
    system_free_all(surplus, c);
  }

  std::mutex mutex_;
  std::array<FreeBlock*, kNumClasses> heads_{};
  std::array<int64_t, kNumClasses> counts_{};
  std::array<int64_t, kNumClasses> kept_{};  // maximum; large blocks are limited by MemoryUse
  size_t small_bytes_ = 0, large_bytes_ = 0;
};

namespace {

// Constant-initialized and never destroyed: threads and tensors may outlive static destruction.
SharedCache& shared_cache() {
  static_assert(std::is_trivially_destructible_v<SharedCache>);
  static SharedCache cache;
  return cache;
}

[[maybe_unused]] const int hooked =
    pthread_atfork(nullptr, nullptr, [] { shared_cache().reset_after_fork(); });

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

// The fast path reads only this pointer. It is null before a thread's first allocation and after
// thread exit, when blocks go through the shared cache.
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
  if (guard_pages() != GuardPages::kNone) return;
  static thread_local ThreadCacheOwner owner;
  (void)owner;
}

}  // namespace

CachedBlock cached_allocate(size_t nbytes) {
  if (nbytes > size_t{1} << 60) throw std::bad_alloc();
  const uint32_t c = class_of(nbytes);
  if (__builtin_expect(counted != nullptr, 0)) *counted += static_cast<int64_t>(class_bytes(c));
  if (c < kNumThreadClasses) {
    ThreadCache* cache = thread_cache;
    if (__builtin_expect(cache == nullptr, 0)) {
      start_thread_cache();
      cache = thread_cache;  // still null while the thread exits
    }
    if (cache && cache->heads[c]) {
      FreeBlock* block = cache->heads[c];
      cache->heads[c] = block->next;
      cache->bytes -= class_bytes(c);
      return {block, c};
    }
  }
  if (void* data = shared_cache().take(c)) return {data, c};
  void* data = system_allocate(c, nbytes);
  if (!data) {
    release_cached_memory();
    data = system_allocate(c, nbytes);
    if (!data) throw std::bad_alloc();
  }
  return {data, c};
}

void cached_free(CachedBlock block) noexcept {
  const uint32_t c = block.size_class;
  if (__builtin_expect(counted != nullptr, 0)) *counted -= static_cast<int64_t>(class_bytes(c));
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
  shared_cache().release(0, kNumClasses - 1);
}

MemoryUse*& MemoryUse::current() noexcept { return current_use; }
int64_t*& counted_bytes() noexcept { return counted; }

void MemoryUse::end_run() noexcept {
  for (Class& each : classes_) each.in_use = 0;  // blocks in use now hold its results
  if (++runs_ < kRunsRemembered) return;
  runs_ = 0;
  shared_cache().forget(*this, /*all=*/false);
}

MemoryUse::~MemoryUse() {
  shared_cache().forget(*this, /*all=*/true);
  if (thread_cache) thread_cache->release();
  shared_cache().release(0, kNumThreadClasses - 1);
}

CachingAllocatorStats caching_allocator_stats() {
  return {system_allocations.load(std::memory_order_relaxed), shared_cache().bytes()};
}

}  // namespace pteron::slim
