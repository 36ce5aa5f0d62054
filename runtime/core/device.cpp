#include "pteron/runtime/core/device.h"

namespace pteron {

std::string describe(Device device) {
  if (device.type == DeviceType::CPU) return "cpu";
  return (device.type == DeviceType::Metal ? "metal:" : "cuda:") + std::to_string(device.index);
}

}  // namespace pteron
