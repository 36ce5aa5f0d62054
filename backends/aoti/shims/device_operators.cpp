#include "pteron/backends/aoti/shims/device_operators.h"

#include <atomic>
#include <cstddef>

namespace pteron::aoti {
namespace {

constexpr size_t kMaxDeviceTypes = 64;

std::atomic<IndexPut>& index_put_of(DeviceType type) {
  static std::atomic<IndexPut> functions[kMaxDeviceTypes] = {};
  return functions[static_cast<size_t>(type) % kMaxDeviceTypes];
}

}  // namespace

void register_index_put(DeviceType type, IndexPut function) {
  index_put_of(type).store(function, std::memory_order_release);
}

IndexPut find_index_put(DeviceType type) {
  return index_put_of(type).load(std::memory_order_acquire);
}

}  // namespace pteron::aoti
