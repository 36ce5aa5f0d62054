// The Metal-specific part of the AOTInductor delegate, one object per delegate. Inputs and outputs
// are on the host; constants are copied to the device once for all delegates.
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
