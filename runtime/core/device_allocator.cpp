#include "pteron/runtime/core/device_allocator.h"

#include <map>
#include <mutex>
#include <utility>

namespace pteron {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<DeviceType, std::unique_ptr<DeviceAllocator>> allocators;
};

// Never destroyed: methods that are freed by static destructors still need their allocator.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

Error register_device_allocator(DeviceType type, std::unique_ptr<DeviceAllocator> allocator) {
  PTERON_CHECK_OR_RETURN(type != DeviceType::CPU && is_valid(type) && allocator,
                         Error::InvalidArgument, "an allocator needs a device type other than CPU");
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  const bool added = all.allocators.emplace(type, std::move(allocator)).second;
  PTERON_CHECK_OR_RETURN(added, Error::AlreadyLoaded,
                         "there is an allocator for device type %d already",
                         static_cast<int>(type));
  return Error::Ok;
}

DeviceAllocator* find_device_allocator(DeviceType type) {
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.allocators.find(type);
  return found == all.allocators.end() ? nullptr : found->second.get();
}

}  // namespace pteron
