#include "pteron/runtime/backend/device_map.h"

#include <charconv>
#include <limits>

namespace pteron {

Result<Device> parse_device(std::string_view text) {
  if (text == "cpu") return Device{};
  Device device{DeviceType::CUDA, 0};
  if (text == "cuda") return device;
  if (text.substr(0, 5) == "cuda:") {
    int index = -1;
    const char* const end = text.data() + text.size();
    const auto [last, status] = std::from_chars(text.data() + 5, end, index);
    if (status == std::errc() && last == end && index >= 0 &&
        index <= std::numeric_limits<int8_t>::max()) {
      device.index = static_cast<int8_t>(index);
      return device;
    }
  }
  return make_error(Error::InvalidArgument, "found device \"%.*s\", expected cpu, cuda or cuda:<n>",
                    static_cast<int>(text.size()), text.data());
}

Error DeviceMap::add(Device named, Device used) {
  PTERON_CHECK_OR_RETURN(named.type == used.type, Error::InvalidArgument,
                         "%s cannot stand for %s: code and memory are made for one type of device",
                         describe(used).c_str(), describe(named).c_str());
  for (const auto& [from, to] : entries_) {
    if (from != named) continue;
    PTERON_CHECK_OR_RETURN(to == used, Error::InvalidArgument, "found both %s and %s for %s",
                           describe(to).c_str(), describe(used).c_str(), describe(named).c_str());
    return Error::Ok;
  }
  entries_.emplace_back(named, used);
  return Error::Ok;
}

Error DeviceMap::add(std::string_view text) {
  const size_t equal = text.find('=');
  PTERON_CHECK_OR_RETURN(equal != std::string_view::npos, Error::InvalidArgument,
                         "found \"%.*s\", expected two devices such as cuda:0=cuda:1",
                         static_cast<int>(text.size()), text.data());
  PTERON_ASSIGN_OR_RETURN(const Device named, parse_device(text.substr(0, equal)));
  PTERON_ASSIGN_OR_RETURN(const Device used, parse_device(text.substr(equal + 1)));
  return add(named, used);
}

}  // namespace pteron
