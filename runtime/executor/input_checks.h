// Validates the inputs of a method before any code of the program uses them.
#pragma once

#include <cstddef>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/executor/method_meta.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {

// Whether check_input() would find no error. Allocates nothing: the fast path for valid inputs.
bool is_input(const ValueMeta& meta, const EValue& value);

// Adds all errors of `value` as input `index` described by `meta`: kind, dtype, device, rank,
// sizes, layout, or for specialized inputs the value itself.
void check_input(size_t index, const ValueMeta& meta, const EValue& value, ErrorList* errors);

}  // namespace pteron
