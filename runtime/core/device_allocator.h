// Memory of one kind of device, and the ways into and out of it.
//
//   DeviceAllocator* allocator = find_device_allocator(DeviceType::CUDA);
//   PTERON_ASSIGN_OR_RETURN(void* arena, allocator->allocate(nbytes, device));
//   PTERON_RETURN_IF_ERROR(allocator->copy_from_host(arena, host, nbytes, device));
//   allocator->free(arena, device);
//
// The runtime needs it for methods whose planned memory is on a device; the library of the device's
// backend registers it when it is opened.
#pragma once

#include <cstddef>
#include <memory>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron {

// A point in the order of a device's work. One thread at a time.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Here: after what is on the calling thread's current stream now.
  virtual Error record() = 0;
  // What is put on `stream` (null: the default one) from now on waits for the last record(). Nobody
  // else waits, the host least of all.
  virtual Error make_wait(void* stream) = 0;
};

// Thread-safe. Addresses are the device's; only the functions below may follow them. Copies and
// fills are complete when they return, unless they say otherwise.
//
// A stream is a queue of work, by the handle that the device's API knows it by; null is the default
// stream. A thread has one current stream for each device, at first the default one.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // `nbytes` > 0, aligned to 256 at least, contents unspecified. MemoryAllocationFailed says how
  // much was asked for and how much is free.
  virtual Result<void*> allocate(size_t nbytes, Device device) = 0;
  // What allocate() gave on the same device.
  virtual void free(void* data, Device device) = 0;

  virtual Error copy_from_host(void* destination, const void* source, size_t nbytes,
                               Device device) = 0;
  virtual Error copy_to_host(void* destination, const void* source, size_t nbytes,
                             Device device) = 0;
  // Within one device.
  virtual Error copy(void* destination, const void* source, size_t nbytes, Device device) = 0;
  virtual Error fill_zero(void* destination, size_t nbytes, Device device) = 0;

  // The rest is for devices whose work is queued; these bodies suit others.

  // Puts what the calling thread executes, allocates and copies from now on on `stream`. Returns
  // the stream before. Borrowed: whoever sets one keeps it alive as long as it is current.
  virtual Result<void*> set_stream(void* stream, Device) { return (void)stream, nullptr; }
  // As copy(), but on the calling thread's current stream and perhaps not complete on return.
  virtual Error copy_in_order(void* destination, const void* source, size_t nbytes, Device device) {
    return copy(destination, source, nbytes, device);
  }
  // Null for a device without streams.
  virtual Result<std::unique_ptr<DeviceEvent>> make_event(Device) {
    return std::unique_ptr<DeviceEvent>();
  }
};

// The allocator of all devices of a type. AlreadyLoaded if there is one (the first stays);
// InvalidArgument for CPU, whose memory is the process's own. Thread-safe.
Error register_device_allocator(DeviceType type, std::unique_ptr<DeviceAllocator> allocator);

// Null if there is none. The object lives as long as the process. Thread-safe.
DeviceAllocator* find_device_allocator(DeviceType type);

}  // namespace pteron
