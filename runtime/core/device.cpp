#include "pteron/runtime/core/device.h"

namespace pteron {

std::string describe(Device device) {
  if (device.type == DeviceType::CPU) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

}  // namespace pteron
