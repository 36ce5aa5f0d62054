// Zeroed memory on a device: what planned tensors and mutable buffers live in.
//
//   PTERON_ASSIGN_OR_RETURN(PlannedBuffer arena, PlannedBuffer::allocate(nbytes, device));
//
// Move-only; freed on destruction. CPU memory begins at a multiple of 64, and pages of a large
// buffer cost nothing until they are touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

class PlannedBuffer final {
 public:
  // NotFound: no allocator is registered for the device; MemoryAllocationFailed. Zero bytes are no
  // allocation.
  static Result<PlannedBuffer> allocate(size_t nbytes, Device device);

  PlannedBuffer() = default;  // empty
  ~PlannedBuffer();
  PlannedBuffer(PlannedBuffer&& other) noexcept;
  PlannedBuffer& operator=(PlannedBuffer&& other) noexcept;
  PlannedBuffer(const PlannedBuffer&) = delete;
  PlannedBuffer& operator=(const PlannedBuffer&) = delete;

  uint8_t* data() const { return data_; }  // an address of the device
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }

 private:
  uint8_t* data_ = nullptr;
  size_t nbytes_ = 0;
  Device device_;
};

// `source` is CPU memory that does not overlap.
Error copy_to_device(void* destination, Span<const uint8_t> source, Device device);
// Both on `device`, and may overlap only on the CPU.
Error copy_within_device(void* destination, const void* source, size_t nbytes, Device device);
Error fill_zero(void* destination, size_t nbytes, Device device);

}  // namespace pteron
