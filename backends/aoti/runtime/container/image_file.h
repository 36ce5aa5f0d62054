// Loads code from memory through a temporary file.
#pragma once

#include <cstdint>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// The environment variable PTERON_CODE_FOLDER, in which code is kept as files that profilers and
// debuggers can read. Null: code is not kept.
const char* kept_code_folder();

// Writes `bytes` to a file `name` in a new private folder (mode 0700) below kept_code_folder(),
// TMPDIR or /tmp, opens it, and removes both unless they are kept. `path`: the loader's path of the
// object. AccessFailed, NotSupported.
Result<void*> open_through_file(const std::string& name, Span<const uint8_t> bytes,
                                std::string* path);

// Writes all of `bytes` to an open file.
Error write_all(int file, Span<const uint8_t> bytes);

// dlopen() with RTLD_NOW and RTLD_LOCAL. NotSupported.
Result<void*> open_library(const std::string& path);

}  // namespace pteron::aoti
