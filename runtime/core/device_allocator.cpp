#include "pteron/runtime/core/device_allocator.h"

#include <array>
#include <atomic>

namespace pteron {
namespace {

// By device type. Never destroyed: methods freed by static destructors still need it.
std::array<std::atomic<DeviceAllocator*>, 16> allocators{};

bool has_place(DeviceType type) {
  return static_cast<int>(type) >= 0 && static_cast<size_t>(type) < allocators.size();
}

}  // namespace

Error register_device_allocator(DeviceType type, std::unique_ptr<DeviceAllocator> allocator) {
  PTERON_CHECK_OR_RETURN(type != DeviceType::CPU && has_place(type) && allocator,
                         Error::InvalidArgument, "an allocator needs a device type other than CPU");
  DeviceAllocator* none = nullptr;
  const bool added =
      allocators[static_cast<size_t>(type)].compare_exchange_strong(none, allocator.get());
  PTERON_CHECK_OR_RETURN(added, Error::AlreadyLoaded,
                         "there is an allocator for device type %d already",
                         static_cast<int>(type));
  (void)allocator.release();
  return Error::Ok;
}

DeviceAllocator* find_device_allocator(DeviceType type) {
  return has_place(type) ? allocators[static_cast<size_t>(type)].load(std::memory_order_acquire)
                         : nullptr;
}

Result<DeviceAllocator*> device_allocator_of(Device device) {
  DeviceAllocator* const allocator = find_device_allocator(device.type);
  PTERON_CHECK_OR_RETURN(allocator, Error::NotFound,
                         "no allocator for %s memory is registered; link the device's backend into "
                         "the program, or open its library",
                         describe(device).c_str());
  return allocator;
}

}  // namespace pteron
