// What a program holds, as a human-readable table.
#pragma once

#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/program.h"

namespace pteron {

// Methods with inputs, outputs, memory, delegates (what their backends say of them) and kernels;
// segments and named data with sizes; integrity. Loads no method.
Result<std::string> describe(const Program& program);

// "1.5 MB"; powers of ten.
std::string human_nbytes(uint64_t nbytes);

}  // namespace pteron
