// Whether a value can be an input of a method: checked before any code of the program sees it.
#pragma once

#include <cstddef>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/executor/method_meta.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {

// Whether check_input() would find nothing. Allocates nothing: what an input that is right costs.
bool is_input(const ValueMeta& meta, const EValue& value);

// Adds everything that keeps `value` from being input `index`, which is described by `meta`: kind,
// dtype, device, rank, sizes, layout, or for what was specialised at export the value itself.
void check_input(size_t index, const ValueMeta& meta, const EValue& value, ErrorList* errors);

}  // namespace pteron
