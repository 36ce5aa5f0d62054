// Zeroed memory on a device, for planned tensors and mutable buffers.
//
//   PTERON_ASSIGN_OR_RETURN(PlannedBuffer arena, PlannedBuffer::allocate(nbytes, device));
//
// Freed with the last copy. CPU memory is aligned to 64, and pages of a large buffer are allocated
// on first access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/storage.h"

namespace pteron {

class PlannedBuffer final {
 public:
  // NotFound: no allocator is registered for the device; MemoryAllocationFailed. Zero bytes
  // allocate nothing.
  static Result<PlannedBuffer> allocate(size_t nbytes, Device device);

  // A device address; null if empty.
  uint8_t* data() const { return storage_ ? static_cast<uint8_t*>(storage_->data) : nullptr; }
  size_t nbytes() const { return storage_ ? storage_->nbytes : 0; }

 private:
  StorageRef storage_;
};

// `source` is CPU memory that does not overlap.
Error copy_to_device(void* destination, Span<const uint8_t> source, Device device);
// Both on `device`, and may overlap only on the CPU.
Error copy_within_device(void* destination, const void* source, size_t nbytes, Device device);
Error fill_zero(void* destination, size_t nbytes, Device device);

}  // namespace pteron
