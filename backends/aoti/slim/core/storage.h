// Storage of tensors.
//
//   PTERON_ASSIGN_OR_RETURN(StorageRef storage, allocate_storage(nbytes, device));
#pragma once

#include <cstddef>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/storage.h"

namespace pteron::slim {

using pteron::kStorageAlignment;
using pteron::Storage;
using pteron::StorageRef;

// Memory that somebody has for tensors.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  // Of just so many bytes; null if there is none.
  virtual StorageRef take(size_t nbytes) = 0;
  // Where the last request, which take() refused, was met.
  virtual void note(const void* data) = 0;
};

// From now on allocate_storage() asks `source` first, on the calling thread and for the CPU. Null:
// nobody, as at first.
void set_storage_source(StorageSource* source);

// Uninitialised bytes, on the CPU from the caching allocator, elsewhere from the device's
// DeviceAllocator. MemoryAllocationFailed; NotFound for a device that nobody registered.
Result<StorageRef> allocate_storage(size_t nbytes, Device device);

// A view of memory that somebody else owns and that must outlive it.
Result<StorageRef> borrow_storage(void* data, size_t nbytes, Device device);

}  // namespace pteron::slim
