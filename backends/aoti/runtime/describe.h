// A human-readable description of a compiled partition: target machine, sizes, operators, inputs
// and outputs.
//
//   std::string describe(const NamedDataMap& named_data, ...) const override {
//     return aoti::describe_delegate(named_data, processed);
//   }
#pragma once

#include <cstdint>
#include <string>

#include "pteron/runtime/backend/named_data_map.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Lines of "name  value", each ended by a newline. Reads only the metadata blob; empty if it is
// missing or corrupt (loading reports why). Arguments are those of load_delegate. Thread-safe.
std::string describe_delegate(const NamedDataMap& named_data, Span<const uint8_t> processed);

}  // namespace pteron::aoti
