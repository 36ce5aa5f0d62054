// What the common shims need of a device: storage of tensors, copies, zeros. Bytes go between device
// and host by its DeviceAllocator, which the runtime needs for planned memory.
//
//   class CudaMemory final : public DeviceMemory { ... };
//   static const bool registered = (register_device_memory(DeviceType::CUDA, &cuda_memory), true);
//
// The CPU is built in. Others register before any model for them is loaded (a static initialiser of
// the library that brings their shims). Thread-safe; methods may be called by several threads at
// once, and work goes to the calling thread's current stream where the device has streams.
#pragma once

#include <cstddef>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::slim {

class SlimTensor;

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Uninitialised bytes on `device`, aligned to kStorageAlignment at least.
  virtual Result<StorageRef> allocate(size_t nbytes, Device device) = 0;

  // Bytes on the host that the device can reach quickly; host memory of the usual kind by default.
  virtual Result<StorageRef> allocate_pinned(size_t nbytes);

  // Copies the elements of `source` to `target`, of equal dtype and sizes and any strides. At least
  // one of them is on this device, the other there or on the CPU. With `non_blocking` false a copy
  // to the CPU is complete on return.
  virtual Error copy(const SlimTensor& target, const SlimTensor& source, bool non_blocking) = 0;

  // Sets every element of `tensor` to zero.
  virtual Error zero(const SlimTensor& tensor) = 0;
};

// `memory` is borrowed for the life of the process. The last registration for a type wins.
void register_device_memory(DeviceType type, DeviceMemory* memory);

// Null for the CPU and for a type that nobody registered.
DeviceMemory* find_device_memory(DeviceType type);

}  // namespace pteron::slim
