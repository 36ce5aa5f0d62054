// Code in memory, opened by the system's loader; a file of the sources for each system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

struct Image {
  void* handle = nullptr;
  int file = -1;  // that keeps its name taken; -1: none
};

// Makes the names of shims that `bytes` imports private, unless that was done when they were linked.
// Returns them as the model spells them, as far as the system's loader would not name what is
// missing itself.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t> bytes);

// `bytes` are opened as they are, under a name that nothing else has. NotSupported: the system
// cannot open them.
Result<Image> open_image(const std::string& name, Span<const uint8_t> bytes);

void close_image(const Image& image);

}  // namespace pteron::aoti
