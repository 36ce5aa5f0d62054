// That the parts of a file's structure are its own: a list, name or table that many others refer to
// makes a small file large for whoever walks over it, and no writer does that.
//
//   if (!is_within_limits(*schema::GetProgram(bytes.data()), bytes.size())) ...
//
// What passes can be walked over a constant number of times at a cost that its size explains.
#pragma once

#include <cstddef>

#include "pteron/runtime/schema/program_generated.h"
#include "pteron/runtime/schema/tensor_data_generated.h"

namespace pteron {

// Far more than programs have. Padding inside the structure counts as its size and costs a sparse
// file nothing, so there is a limit for all.
inline constexpr size_t kMaxTables = 1 << 21;
inline constexpr size_t kMaxListedNbytes = size_t{1} << 27;

// Of a structure of `nbytes` that the verifier has passed.
bool is_within_limits(const schema::Program& program, size_t nbytes);
bool is_within_limits(const schema::TensorData& data, size_t nbytes);

}  // namespace pteron
