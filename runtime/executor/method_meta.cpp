#include "pteron/runtime/executor/method_meta.h"

#include <cstdio>

#include "pteron/runtime/core/printable.h"

namespace pteron {
namespace {

struct DescribeScalar {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(int64_t value) const { return " " + std::to_string(value); }
  std::string operator()(double value) const {
    char text[32];
    std::snprintf(text, sizeof(text), " %.17g", value);
    return text;
  }
  std::string operator()(bool value) const { return value ? " true" : " false"; }
  std::string operator()(const std::string& value) const { return " \"" + printable(value) + "\""; }
};

}  // namespace

std::string ValueMeta::describe() const {
  if (kind != ValueKind::Tensor) {
    // For a symbolic input the value at load is meaningless.
    return std::string(name_of(kind)) + (symbolic ? "" : std::visit(DescribeScalar(), value));
  }
  std::string text = std::string(name_of(dtype)) + "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    if (dynamism != ShapeDynamism::Static) text += "<=";
    text += std::to_string(sizes[i]);
  }
  text += "]";
  if (device.type != DeviceType::CPU) text += " on " + pteron::describe(device);
  return text;
}

}  // namespace pteron
