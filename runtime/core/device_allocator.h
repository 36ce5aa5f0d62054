// Memory of one kind of device, and the ways into and out of it.
//
//   PTERON_ASSIGN_OR_RETURN(DeviceAllocator* allocator, device_allocator_of(device));
//   PTERON_ASSIGN_OR_RETURN(StorageRef arena, allocator->allocate(nbytes, device));
//   PTERON_RETURN_IF_ERROR(
//       allocator->copy(arena->data, device, host, Device{}, nbytes, Wait::Yes));
//
// The runtime needs it for planned memory, inputs and outputs on a device, the shims of compiled
// code for tensors; the library of the device's backend registers it when it is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/storage.h"

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

// Whether work is complete on return, or queued on the calling thread's current stream.
enum class Wait : bool { No, Yes };

// Thread-safe. Addresses are the device's; only the functions below may follow them.
//
// A stream is a queue of work, by the handle that the device's API knows it by; null is the default
// stream. A thread has one current stream for each device, at first the default one.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // Uninitialised, aligned to 256 at least. MemoryAllocationFailed says how much was asked for and
  // how much is free. Memory that goes back may serve work that is queued later on the same stream.
  virtual Result<StorageRef> allocate(size_t nbytes, Device device) = 0;
  // Gives back what is kept of freed memory. May wait for the device.
  virtual void trim(Device) noexcept {}
  // Bytes on the host that the device reaches quickly; null where there is no such memory.
  virtual Result<StorageRef> allocate_pinned(size_t) { return StorageRef(); }

  // `to`, `from` or both are devices of this type, and the other one may be the host.
  virtual Error copy(void* destination, Device to, const void* source, Device from, size_t nbytes,
                     Wait wait) = 0;
  // As the function of this name in strided_copy.h, within one device and queued. Without a
  // `source` the target is filled with zeros.
  virtual Error copy_strided(void* target, const int64_t* target_strides, const void* source,
                             const int64_t* source_strides, const int64_t* sizes, size_t dim,
                             size_t item_size, Device device) = 0;
  virtual Error fill_zero(void* destination, size_t nbytes, Device device, Wait wait) = 0;

  // The rest is for devices whose work is queued; these bodies suit others.

  // Puts what the calling thread executes, allocates and copies from now on on `stream`. Returns
  // the stream before. Borrowed: whoever sets one keeps it alive as long as it is current.
  virtual Result<void*> set_stream(void* stream, Device) { return (void)stream, nullptr; }
  // Null for a device without streams.
  virtual Result<std::unique_ptr<DeviceEvent>> make_event(Device) {
    return std::unique_ptr<DeviceEvent>();
  }
};

// The allocator of all devices of a type. AlreadyLoaded if there is one (the first stays);
// InvalidArgument for CPU, whose memory is the process's own. Thread-safe.
Error register_device_allocator(DeviceType type, std::unique_ptr<DeviceAllocator> allocator);

// Null if there is none. The object lives as long as the process. Thread-safe, without a lock.
DeviceAllocator* find_device_allocator(DeviceType type);
// The same; NotFound, with what to do about it, if there is none.
Result<DeviceAllocator*> device_allocator_of(Device device);

}  // namespace pteron
