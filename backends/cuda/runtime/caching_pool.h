// Device memory that is asked of the driver once and used again.
//
//   CachingPool* pool = CachingPool::create(device);
//   PTERON_ASSIGN_OR_RETURN(slim::StorageRef storage, pool->allocate(nbytes));
//   ...                        // work on one stream
//   storage = {};              // back to the pool, for later work on that stream
//   pool->release();           // its memory goes when the last storage has gone
//
// One pool serves one sequence of work: what a block is reused for is launched after what it was
// used for before, so host-side freeing needs no wait. Whoever moves the sequence to another stream
// lets that stream wait for the first (see CudaStream).
//
// Sizes are rounded up to an eighth of a power of two (at most 12.5 % more), at least 512 bytes.
// Addresses are aligned to 256 bytes. In a steady state neither the driver nor malloc is called.
// Thread-safe; one short lock of its own.
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
    // Bytes of a known pattern before and after every block, checked when it is freed. For tests:
    // each allocation and each free then waits for the device.
    size_t redzone_nbytes = 0;
    // For CUDA graphs, which use blocks by their addresses after they came back: no block goes
    // before release(), and any block that is large enough will do, so that graphs of several
    // sizes share them.
    bool keeps_blocks = false;
  };

  // Owned by the caller until release(). No device memory is taken yet.
  static CachingPool* create(int device) { return create(device, Options()); }
  static CachingPool* create(int device, Options options);

  // The pool of work that belongs to no model: one for each device and stream, for the life of the
  // process.
  static CachingPool& of_stream(int device, void* stream);
  // Gives back what those pools of `device` have cached. Waits for the work on it.
  static void trim_streams(int device);

  // At least `nbytes`, uninitialised; `device` need not be current. When the device is full, what
  // is cached is given back and the driver asked once more. MemoryAllocationFailed says how much
  // was asked for, held and free.
  Result<slim::StorageRef> allocate(size_t nbytes);

  // Gives cached blocks back to the device, unless it keeps them. Waits for the work on it.
  void trim();

  // All pools of the process. Waits for the devices' work, and while a stream is captured.
  static void trim_all();

  // The owner is done: cached blocks are freed now, others as they come back, the pool with the
  // last.
  void release();

  int device() const { return device_; }
  size_t reserved_nbytes() const;  // asked of the driver and not given back
  size_t in_use_nbytes() const;    // thereof, in storages
  // Blocks whose redzones were found overwritten.
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

// `nbytes` rounded up to the sizes that blocks have.
size_t pool_block_size(size_t nbytes);

}  // namespace pteron::cuda
