// Compiles kernels of the recording device with the host C++ compiler.
#pragma once

#include <string>

#include "pteron/runtime/core/result.h"

namespace pteron::metal {

// Compiles `cpp` after metal_stdlib.h to a shared object and opens it. It is never closed.
// InvalidProgram has the compiler's first lines, numbered from the start of `cpp`.
Result<void*> compile_and_open(const std::string& cpp);

}  // namespace pteron::metal
