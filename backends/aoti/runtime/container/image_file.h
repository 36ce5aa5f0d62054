// Code in memory, opened by the system's loader through a file.
#pragma once

#include <cstdint>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Opens a new file `name` of `bytes` in a folder of its own, below TMPDIR or /tmp, that only this
// user may enter. Both are gone when it returns. `path`: what the loader calls it.
// AccessFailed, NotSupported.
Result<void*> open_through_file(const std::string& name, Span<const uint8_t> bytes,
                                std::string* path);

// All of `bytes` to an open file.
Error write_all(int file, Span<const uint8_t> bytes);

// dlopen(), with everything bound and nothing added to the global scope. NotSupported.
Result<void*> open_library(const std::string& path);

}  // namespace pteron::aoti
