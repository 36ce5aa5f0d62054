#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"

namespace pteron::slim {
namespace {

constexpr size_t kMega = size_t{1} << 20;

size_t kept() { return caching_allocator_stats().shared_cached_bytes; }
uint64_t asked() { return caching_allocator_stats().system_allocations; }

// Blocks of so many bytes, all at once.
void run(MemoryUse& use, const std::vector<size_t>& sizes) {
  const MemoryUse::Run run(use);
  std::vector<CachedBlock> blocks;
  for (const size_t nbytes : sizes) {
    blocks.push_back(cached_allocate(nbytes));
    std::memset(blocks.back().data, 1, nbytes);
  }
  for (const CachedBlock block : blocks) cached_free(block);
}

class CachingAllocator : public ::testing::Test {
 protected:
  void SetUp() override { release_cached_memory(); }
};

TEST_F(CachingAllocator, ARunThatComesAgainAsksTheSystemForNothing) {
  MemoryUse use;
  const std::vector<size_t> sizes = {1000, 300000, 5 * kMega, 5 * kMega, 64 * kMega};
  run(use, sizes);
  const uint64_t first = asked();
  for (int i = 0; i < 100; ++i) run(use, sizes);
  EXPECT_EQ(asked(), first);
  EXPECT_GE(kept(), 74 * kMega);
}

TEST_F(CachingAllocator, SizesThatTakeTurnsAreAllKept) {
  MemoryUse use;
  const auto one_after_the_other = [&] {
    for (size_t mega = 1; mega <= 8; ++mega) run(use, {mega * kMega});
  };
  one_after_the_other();
  const uint64_t first = asked();
  for (int i = 0; i < 20; ++i) one_after_the_other();
  EXPECT_EQ(asked(), first);
}

TEST_F(CachingAllocator, ALargeRequestIsForgotten) {
  for (const size_t later : {size_t{64}, 2 * kMega}) {
    MemoryUse use;
    run(use, {100 * kMega, 100 * kMega, later});
    EXPECT_GE(kept(), 200 * kMega);
    for (uint32_t i = 0; i < 2 * MemoryUse::kRunsRemembered; ++i) run(use, {later});
    EXPECT_LE(kept(), 2 * later + kThreadCacheBytes);
  }
}

TEST_F(CachingAllocator, WhatWasKeptForAModelGoesWithItAndOthersKeepTheirs) {
  auto one = std::make_unique<MemoryUse>();
  MemoryUse other;
  run(*one, {50 * kMega, 20 * kMega});
  run(other, {20 * kMega});
  run(other, {20 * kMega});
  one.reset();
  EXPECT_LE(kept(), 21 * kMega + kThreadCacheBytes);
  const uint64_t before = asked();
  run(other, {20 * kMega});
  EXPECT_EQ(asked(), before);
}

TEST_F(CachingAllocator, ModelsThatRunInTurnShare) {
  std::vector<MemoryUse> models(50);
  for (MemoryUse& model : models) run(model, {30 * kMega});
  EXPECT_LE(kept(), 40 * kMega);
}

TEST_F(CachingAllocator, ResultsThatOutliveTheRunAndTheModelAreGivenBack) {
  CachedBlock result{};
  {
    MemoryUse use;
    for (int i = 0; i < 40; ++i) {
      const CachedBlock next = [&use] {
        const MemoryUse::Run run(use);
        return cached_allocate(40 * kMega);
      }();
      if (result.data) cached_free(result);
      result = next;
    }
  }
  cached_free(result);
  EXPECT_LE(kept(), kThreadCacheBytes);
}

TEST_F(CachingAllocator, OutsideOfRunsLargeBlocksAreNotKept) {
  cached_free(cached_allocate(30 * kMega));
  EXPECT_LE(kept(), kThreadCacheBytes);
}

TEST_F(CachingAllocator, ReleasesWhenAskedWhileOthersRun) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stop, i] {
      MemoryUse use;
      while (!stop) run(use, {(1 + static_cast<size_t>(i)) * kMega, 300000, 100});
    });
  }
  for (int i = 0; i < 200; ++i) release_cached_memory();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(kept(), kThreadCacheBytes);
  release_cached_memory();
  EXPECT_EQ(kept(), 0);
}

TEST_F(CachingAllocator, AChildCanAllocateWhateverOthersDidAtTheFork) {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    MemoryUse use;
    while (!stop) run(use, {kMega, 2 * kMega});
  });
  MemoryUse use;
  run(use, {3 * kMega});
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      run(use, {3 * kMega, kMega});
      const uint64_t before = asked();
      run(use, {3 * kMega, kMega});
      _exit(asked() == before ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace pteron::slim
