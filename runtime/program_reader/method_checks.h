// Semantic validation of a method, beyond the file's structure.
//
//   ErrorList errors;
//   check_method(data, *method, &errors);
//   PTERON_RETURN_IF_ERROR(errors.to_error(path));
//
// After a check without errors all indices, ranges and kinds are valid, so that loader and
// instruction loop need no further checks. External data is resolved when the method is loaded.
// Reads only the FlatBuffers part.
#pragma once

#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/program_data.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

// Checks one method, which has a name. The tables of `data` that it refers to must be read already.
void check_method(const ProgramData& data, const schema::Method& method, ErrorList* errors);

}  // namespace pteron
