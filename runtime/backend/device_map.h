// Maps a program's devices to other devices.
//
//   LoadMethodOptions options;
//   PTERON_RETURN_IF_ERROR(options.devices.add("cuda:0=cuda:1"));  // what was made for cuda:0 ...
//   PTERON_ASSIGN_OR_RETURN(auto method, program->load_method("forward", options));
//   method->meta().inputs[0].device;                               // ... is and runs on cuda:1
//
// A plain value; not synchronized.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron {

// "cpu", "cuda" (device 0) or "cuda:<n>", n up to 127. InvalidArgument for anything else.
Result<Device> parse_device(std::string_view text);

class DeviceMap final {
 public:
  // InvalidArgument: devices of different types, or a device that is already mapped to another.
  Error add(Device named, Device used);
  // The same from text, "cuda:0=cuda:1".
  Error add(std::string_view text);

  // `named` itself if it is not mapped.
  Device operator[](Device named) const {
    for (const auto& [from, to] : entries_) {
      if (from == named) return to;
    }
    return named;
  }

 private:
  std::vector<std::pair<Device, Device>> entries_;
};

}  // namespace pteron
