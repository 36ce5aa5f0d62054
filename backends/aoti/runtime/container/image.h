// Code in memory, opened by the system's loader; a file of the sources for each system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Makes the names of shims that `bytes` imports private, unless that was done when they were linked.
// Returns them as the model spells them, as far as the system's loader would not name what is
// missing itself.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t> bytes);

// A handle for dlsym() and dlclose(). `bytes` are opened as they are, under a path that the loader
// has not seen before in this process: it would answer with what it has of that path. `name` is for
// readers of /proc/self/maps. No descriptor stays open. NotSupported: the system cannot open them.
Result<void*> open_image(const std::string& name, Span<const uint8_t> bytes);

}  // namespace pteron::aoti
