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

// Uninitialised bytes, on the CPU from the caching allocator, elsewhere from the device's
// DeviceAllocator. MemoryAllocationFailed; NotFound for a device that nobody registered.
Result<StorageRef> allocate_storage(size_t nbytes, Device device);

// A view of memory that somebody else owns and that must outlive it.
Result<StorageRef> borrow_storage(void* data, size_t nbytes, Device device);

}  // namespace pteron::slim
