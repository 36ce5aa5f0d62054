#include "pteron/backends/aoti/slim/core/device_memory.h"

#include <array>
#include <atomic>

namespace pteron::slim {
namespace {

constexpr size_t kMaxDeviceTypes = 32;
std::array<std::atomic<DeviceMemory*>, kMaxDeviceTypes> device_memories{};

}  // namespace

Result<StorageRef> DeviceMemory::allocate_pinned(size_t nbytes) {
  return allocate_storage(nbytes, Device{});
}

void register_device_memory(DeviceType type, DeviceMemory* memory) {
  const auto i = static_cast<size_t>(type);
  if (i < kMaxDeviceTypes) device_memories[i].store(memory, std::memory_order_release);
}

DeviceMemory* find_device_memory(DeviceType type) {
  const auto i = static_cast<size_t>(type);
  return i < kMaxDeviceTypes ? device_memories[i].load(std::memory_order_acquire) : nullptr;
}

}  // namespace pteron::slim
