// The machine's C++ compiler, for kernels of the recording device.
#pragma once

#include <string>

#include "pteron/runtime/core/result.h"

namespace pteron::metal {

// A shared object of `cpp` behind metal_stdlib.h, opened. It is never closed. InvalidProgram has the
// compiler's first lines; they count from the text's own.
Result<void*> compile_and_open(const std::string& cpp);

}  // namespace pteron::metal
