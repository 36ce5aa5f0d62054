// Allocates memory of one device type, and copies to and from it.
//
//   PTERON_ASSIGN_OR_RETURN(DeviceAllocator* allocator, device_allocator_of(device));
//   PTERON_ASSIGN_OR_RETURN(StorageRef arena, allocator->allocate(nbytes, device));
//   PTERON_RETURN_IF_ERROR(
//       allocator->copy(arena->data, device, host, Device{}, nbytes, Wait::Yes));
//
// The runtime uses it for planned memory, inputs and outputs on a device; compiled code uses it for
// tensors. The library of the device's backend registers it when it is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/storage.h"

namespace pteron {

// An event in a device's work. Not thread-safe.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Records after all work now on the calling thread's current stream.
  virtual Error record() = 0;
  // Makes later work on `stream` (null: the default stream) wait for the last record(). Does not
  // block the host.
  virtual Error make_wait(void* stream) = 0;
};

// Whether work is complete on return, or queued on the calling thread's current stream.
enum class Wait : bool { No, Yes };

// Thread-safe. Addresses are device addresses; only the functions below may dereference them.
//
// A stream is the handle of the device's API; null is the default stream. A thread has one current
// stream per device, initially the default stream.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // Uninitialized, aligned to at least 256. MemoryAllocationFailed has the requested and free
  // bytes. Freed memory may be reused by later work on the same stream.
  virtual Result<StorageRef> allocate(size_t nbytes, Device device) = 0;
  // Returns cached memory to the device. May synchronize.
  virtual void trim(Device) noexcept {}
  // Pinned host memory; null if the device has none.
  virtual Result<StorageRef> allocate_pinned(size_t) { return StorageRef(); }

  // `to`, `from` or both are devices of this type; the other may be the host.
  virtual Error copy(void* destination, Device to, const void* source, Device from, size_t nbytes,
                     Wait wait) = 0;
  // As copy_strided() in strided_copy.h, within one device, asynchronous. A null `source` zeroes
  // the target.
  virtual Error copy_strided(void* target, const int64_t* target_strides, const void* source,
                             const int64_t* source_strides, const int64_t* sizes, size_t dim,
                             size_t item_size, Device device) = 0;
  virtual Error fill_zero(void* destination, size_t nbytes, Device device, Wait wait) = 0;

  // The rest is for devices with streams; the default implementations suit others.

  // Sets the calling thread's current stream for execution, allocation and copies. Returns the
  // previous stream. Borrowed: the caller keeps it alive while it is current.
  virtual Result<void*> set_stream(void* stream, Device) { return (void)stream, nullptr; }
  // Null for a device without streams.
  virtual Result<std::unique_ptr<DeviceEvent>> make_event(Device) {
    return std::unique_ptr<DeviceEvent>();
  }
};

// Registers the allocator of a device type. AlreadyLoaded if there is one (the first stays);
// InvalidArgument for CPU. Thread-safe.
Error register_device_allocator(DeviceType type, std::unique_ptr<DeviceAllocator> allocator);

// Null if there is none. The object lives as long as the process. Thread-safe, without a lock.
DeviceAllocator* find_device_allocator(DeviceType type);
// The same; NotFound with a remedy if there is none.
Result<DeviceAllocator*> device_allocator_of(Device device);

}  // namespace pteron
