// A caching allocator for device memory.
//
//   CachingPool* pool = CachingPool::create(device);
//   PTERON_ASSIGN_OR_RETURN(slim::StorageRef storage, pool->allocate(nbytes));
//   ...                        // work on one stream
//   storage = {};              // back to the pool, for later work on that stream
//   pool->release();           // its memory is freed with the last storage
//
// One pool serves one stream of work: the next use of a block is launched after the previous one,
// so the host can free it without synchronizing. To move the work to another stream, make that
// stream wait for the first (see CudaStream).
//
// Sizes are rounded up to an eighth of a power of two (at most 12.5 % more), at least 512 bytes.
// Addresses are aligned to 256 bytes. In a steady state neither the driver nor malloc is called.
// Thread-safe; one short lock per pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

class CachingPool final {
 public:
  struct Options {
    // Redzones: a byte pattern before and after every block, checked when it is freed. For tests:
    // each allocation and free then synchronizes the device.
    size_t redzone_nbytes = 0;
    // For CUDA graphs, which use the addresses of freed blocks: no block is returned to the driver
    // before release(), and any sufficiently large block is reused, so that graphs of several sizes
    // share memory.
    bool keeps_blocks = false;
  };

  // Owned by the caller until release(). Allocates no device memory yet.
  static CachingPool* create(int device) { return create(device, Options()); }
  static CachingPool* create(int device, Options options);

  // The pool for work outside models: one per device and stream, for the life of the process.
  static CachingPool& of_stream(int device, void* stream);
  // Frees the cached blocks of those pools of `device`. Synchronizes the device.
  static void trim_streams(int device);

  // At least `nbytes`, uninitialized; `device` need not be current. If the device is out of memory,
  // frees cached blocks and retries once. MemoryAllocationFailed has the requested, held and free
  // bytes.
  Result<slim::StorageRef> allocate(size_t nbytes);

  // Frees cached blocks, unless the pool keeps them. Synchronizes the device.
  void trim();

  // Trims all pools of the process. Synchronizes the devices, and waits while a stream is captured.
  static void trim_all();

  // Called by the owner when done: cached blocks are freed now, others when they are returned, the
  // pool with the last.
  void release();

  int device() const { return device_; }
  size_t reserved_nbytes() const;  // allocated from the driver
  size_t in_use_nbytes() const;    // thereof in use
  // Number of blocks with overwritten redzones.
  size_t redzone_violations() const;

 private:
  struct Block;

  CachingPool(int device, Options options);
  ~CachingPool();
  static void destroy(slim::Storage* storage) noexcept;

  Result<Block*> make_block(size_t size, size_t requested);
  void free_cached();
  Error paint_redzones(const Block& block) const;
  bool redzones_intact(const Block& block) const;

  const int device_;
  const Options options_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<Block*>> cached_;  // by block size
  size_t reserved_ = 0;
  size_t in_use_ = 0;
  size_t live_ = 0;  // blocks in storages
  size_t violations_ = 0;
  bool released_ = false;
};

// `nbytes` rounded up to a block size.
size_t pool_block_size(size_t nbytes);

}  // namespace pteron::cuda
