#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda {
namespace {

TEST(PoolBlockSize, WastesAnEighthAtMost) {
  EXPECT_EQ(pool_block_size(0), 512u);
  EXPECT_EQ(pool_block_size(1), 512u);
  EXPECT_EQ(pool_block_size(512), 512u);
  EXPECT_EQ(pool_block_size(513), 1024u);
  for (size_t nbytes = 4096; nbytes < (size_t{1} << 33); nbytes += nbytes / 3) {
    const size_t size = pool_block_size(nbytes);
    EXPECT_GE(size, nbytes);
    EXPECT_LE(size, nbytes + nbytes / 8 + 512);
    EXPECT_EQ(size % 512, 0u);
    EXPECT_EQ(pool_block_size(size), size) << "a block must fit its own size";
  }
}

TEST(CachingPool, GivesBlocksAgain) {
  PTERON_REQUIRE_CUDA();
  CachingPool* pool = CachingPool::create(0);
  void* first = nullptr;
  {
    Result<slim::StorageRef> storage = pool->allocate(1000);
    ASSERT_TRUE(storage.ok()) << storage.error().message();
    first = (*storage)->data;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
    EXPECT_EQ((*storage)->nbytes, 1000u);
    EXPECT_EQ(pool->in_use_nbytes(), pool_block_size(1000));
  }
  EXPECT_EQ(pool->in_use_nbytes(), 0u);
  Result<slim::StorageRef> again = pool->allocate(900);  // the same block size
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->data, first);
  EXPECT_EQ(pool->reserved_nbytes(), pool_block_size(1000));
  *again = {};
  pool->trim();
  EXPECT_EQ(pool->reserved_nbytes(), 0u);
  pool->release();
}

TEST(CachingPool, KeepsBlocksForGraphsAndLetsThemShare) {
  PTERON_REQUIRE_CUDA();
  CachingPool::Options options;
  options.keeps_blocks = true;
  CachingPool* pool = CachingPool::create(0, options);
  void* large = nullptr;
  {
    Result<slim::StorageRef> storage = pool->allocate(1 << 20);
    ASSERT_TRUE(storage.ok()) << storage.error().message();
    large = (*storage)->data;
  }
  pool->trim();
  EXPECT_EQ(pool->reserved_nbytes(), size_t{1} << 20);
  {
    Result<slim::StorageRef> first = pool->allocate(1000), second = pool->allocate(1000);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ((*first)->data, large);
    EXPECT_EQ((*first)->nbytes, 1000u);
    EXPECT_NE((*second)->data, large);
  }
  Result<slim::StorageRef> again = pool->allocate(900);
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->data, large) << "a smaller one would have done";
  *again = {};
  pool->release();
}

TEST(CachingPool, OutlivesItsOwnerWhileStoragesLive) {
  PTERON_REQUIRE_CUDA();
  size_t before = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  CachingPool* pool = CachingPool::create(0);
  Result<slim::StorageRef> storage = pool->allocate(size_t{64} << 20);
  ASSERT_TRUE(storage.ok()) << storage.error().message();
  pool->release();
  EXPECT_EQ(cudaMemset((*storage)->data, 0, 64 << 20), cudaSuccess);
  *storage = {};
  size_t after = 0;
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
}

TEST(CachingPool, SaysThatTheDeviceIsFull) {
  PTERON_REQUIRE_CUDA();
  CachingPool* pool = CachingPool::create(0);
  Result<slim::StorageRef> storage = pool->allocate(size_t{1} << 50);
  ASSERT_FALSE(storage.ok());
  EXPECT_EQ(storage.error(), Error::MemoryAllocationFailed);
  EXPECT_NE(storage.error().message().find("are free"), std::string::npos);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the failure must not stay in the runtime";
  pool->release();
}

TEST(CachingPool, FindsWritesBehindABlock) {
  PTERON_REQUIRE_CUDA();
  CachingPool::Options options;
  options.redzone_nbytes = 1024;
  CachingPool* pool = CachingPool::create(0, options);
  {
    Result<slim::StorageRef> storage = pool->allocate(100);
    ASSERT_TRUE(storage.ok()) << storage.error().message();
    ASSERT_EQ(cudaMemset((*storage)->data, 0, 100), cudaSuccess);
  }
  EXPECT_EQ(pool->redzone_violations(), 0u);
  {
    Result<slim::StorageRef> storage = pool->allocate(100);
    ASSERT_TRUE(storage.ok());
    ASSERT_EQ(cudaMemset((*storage)->data, 0, 101), cudaSuccess);  // one byte too far
  }
  EXPECT_EQ(pool->redzone_violations(), 1u);
  {
    Result<slim::StorageRef> storage = pool->allocate(100);
    ASSERT_TRUE(storage.ok());
    ASSERT_EQ(cudaMemset(static_cast<char*>((*storage)->data) - 1, 0, 1), cudaSuccess);
  }
  EXPECT_EQ(pool->redzone_violations(), 2u);
  pool->release();
}

}  // namespace
}  // namespace pteron::cuda
