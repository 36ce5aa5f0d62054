// Checks that vectors, names and tables of a file are not shared: many references to one object
// make a small file expensive to traverse, and no writer creates them.
//
//   if (!is_within_limits(*schema::GetProgram(bytes.data()), bytes.size())) ...
//
// A structure that passes can be traversed at a cost bounded by its size.
#pragma once

#include <cstddef>

#include "pteron/runtime/schema/program_generated.h"
#include "pteron/runtime/schema/tensor_data_generated.h"

namespace pteron {

// Far more than real programs have. Absolute limits, since padding counts as size and costs a
// sparse file nothing.
inline constexpr size_t kMaxTables = 1 << 21;
inline constexpr size_t kMaxListedNbytes = size_t{1} << 27;

// For a structure of `nbytes` that passed the verifier.
bool is_within_limits(const schema::Program& program, size_t nbytes);
bool is_within_limits(const schema::TensorData& data, size_t nbytes);

}  // namespace pteron
