// A human-readable description of a program.
#pragma once

#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/executor/program.h"

namespace pteron {

// Methods with inputs, outputs, memory, delegates (described by their backends) and kernels;
// segments and named data with sizes; integrity. Loads no method.
Result<std::string> describe(const Program& program);

// "1.5 MB"; powers of ten.
std::string human_nbytes(uint64_t nbytes);

}  // namespace pteron
