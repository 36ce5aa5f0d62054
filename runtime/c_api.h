// What C functions of other libraries than libpteron.so need of the C API.
#pragma once

#include <functional>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/program_reader/load_options.h"
#include "pteron/runtime/pteron.h"

namespace pteron {

// pteron_load() with options that `change` makes of those given, which may fail. Keeps the message
// of an error for pteron_last_error().
pteron_status load_for_c(const char* path, const pteron_load_options* options,
                         const std::function<Result<LoadOptions>(LoadOptions)>& change,
                         pteron_module** module);

}  // namespace pteron
