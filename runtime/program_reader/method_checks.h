// Whether a method means something: everything that the structure of a file does not prove.
//
//   ErrorList errors;
//   check_method(data, *method, &errors);
//   PTERON_RETURN_IF_ERROR(errors.to_error(path));
//
// After a check without errors every index, range and kind that the loader and the instruction
// loop follow is right, so that they need not look again. External data is looked up when the
// method is loaded, not here. Reads only the FlatBuffers part.
#pragma once

#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/program_data.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

// One method, which has a name. The tables of `data` that it refers to must be read already.
void check_method(const ProgramData& data, const schema::Method& method, ErrorList* errors);

}  // namespace pteron
