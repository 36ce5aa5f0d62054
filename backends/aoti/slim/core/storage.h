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

// A source of memory for tensors.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  // Exactly `nbytes`; null if it has none.
  virtual StorageRef take(size_t nbytes) = 0;
  // Reports the address that the last request got after take() returned null.
  virtual void note(const void* data) = 0;
};

// Makes allocate_storage() try `source` first, for CPU memory on the calling thread. Null, the
// default: no source.
void set_storage_source(StorageSource* source);

// Uninitialized bytes, on the CPU from the caching allocator, elsewhere from the device's
// DeviceAllocator. MemoryAllocationFailed; NotFound for a device without a registered allocator.
Result<StorageRef> allocate_storage(size_t nbytes, Device device);

// Borrowed memory, which must outlive the storage.
Result<StorageRef> borrow_storage(void* data, size_t nbytes, Device device);

}  // namespace pteron::slim
