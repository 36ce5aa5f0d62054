// Weights on devices, deduplicated by content for all models of the process.
//
//   WeightUpload upload(device, nbytes_of_all);
//   PTERON_ASSIGN_OR_RETURN(slim::StorageRef weight, upload.add(digest, bytes));   // starts a copy
//   PTERON_ASSIGN_OR_RETURN(std::vector<slim::StorageRef> small, upload.add_together(parts));
//   ...
//   PTERON_RETURN_IF_ERROR(upload.finish());        // all uploaded; others can share them
//
// A weight lives as long as a tensor refers to it. Its memory is part of a block of up to 32 MiB,
// or of its own size, which is freed with its last weight. Bytes are copied through two pinned
// buffers, so that reading the file and copying to the device overlap. Digests come from files and
// are not trusted: before sharing, the bytes are compared with those on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron::cuda {

// Current weights on a device; shared weights are counted once.
struct WeightUse {
  size_t count = 0;
  size_t nbytes = 0;
};
WeightUse weight_use(int device);

// The uploads of one load; one thread.
class WeightUpload final {
 public:
  // `nbytes`: approximate total to be added; limits the block size.
  explicit WeightUpload(int device, size_t nbytes = 0);
  ~WeightUpload();
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // The storage for `bytes`, which must outlive this; contents are valid after finish(). Equal
  // bytes must have equal digests. Aligned to 256 bytes. MemoryAllocationFailed has the requested
  // and free bytes.
  Result<slim::StorageRef> add(const Sha256Digest& digest, Span<const uint8_t> bytes);

  // The same for many small parts as one weight, each part aligned, with one copy. Shared with
  // uploads of the same set, in any order. Parts with the same memory are stored once.
  Result<std::vector<slim::StorageRef>> add_together(Span<const Span<const uint8_t>> parts);

  // Waits for the copies and makes the weights shareable.
  Error finish();

 private:
  struct Added;

  Error start();
  // Memory for a weight, in a block sized for the `expected` bytes.
  Result<void*> place(size_t nbytes, size_t expected, std::shared_ptr<void>* memory);
  Error copy(void* target, Span<const uint8_t> bytes);
  // Whether a finished weight holds these bytes.
  Result<bool> holds(const void* weight, Span<const uint8_t> bytes);

  const int device_;
  size_t expected_;              // still to be added
  std::shared_ptr<void> block_;  // with room for more weights
  size_t block_nbytes_ = 0;
  size_t block_used_ = 0;
  cudaStream_t stream_ = nullptr;
  char* pinned_ = nullptr;                    // two buffers
  cudaEvent_t read_[2] = {nullptr, nullptr};  // when each buffer may be filled again
  int next_ = 0;
  std::vector<Added> added_;
  std::vector<std::vector<uint8_t>> joined_;  // bytes that `added_` refers to
};

}  // namespace pteron::cuda
