// The device of a tensor's memory.
#pragma once

#include <cstdint>
#include <string>

namespace pteron {

// Values are those of the program format. It has none for Metal, whose delegates take and return
// host tensors; that value is torch's, as compiled code passes it.
enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Metal = 13 };

// Whether a program may use it.
constexpr bool is_valid(DeviceType type) {
  return type == DeviceType::CPU || type == DeviceType::CUDA;
}

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;  // always 0 for CPU

  friend bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
  friend bool operator!=(Device a, Device b) { return !(a == b); }
};

// "cpu", "cuda:1": for messages.
std::string describe(Device device);

}  // namespace pteron
