// What Metal adds to the delegate that all AOTInductor backends share: one object per delegate.
// Values come from the host and go back there; constants are on the device once, however many
// delegates read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/runtime/aoti_device.h"

namespace pteron::metal {

class MetalDevice final : public aoti::AotiDevice {
 public:
  std::string_view name() const override { return "metal"; }
  Error check_machine(const aoti::Metadata& metadata) override;
  std::string container_device() const override { return "mps"; }
  Device device() const override { return Device{DeviceType::Metal, 0}; }
  Result<std::vector<slim::TensorPtr>> make_constants(
      Span<const aoti::ConstantInfo> constants, Span<const Span<const uint8_t>> bytes) override;
};

}  // namespace pteron::metal
