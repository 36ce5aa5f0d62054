// Loads code from memory with the dynamic loader. One source file per operating system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Renames the shims that `bytes` imports to private names, unless the linker did. Returns their
// original names, unless the dynamic loader itself reports missing symbols.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t> bytes);

// A handle for dlsym() and dlclose(). Opens `bytes` unchanged, under a path that is new to the
// loader, which returns the already open object for a known path. `name` appears in
// /proc/self/maps. No descriptor stays open. NotSupported: the system cannot open them.
Result<void*> open_image(const std::string& name, Span<const uint8_t> bytes);

}  // namespace pteron::aoti
