// Reads the MethodMeta of a method in the file.
#pragma once

#include <string>
#include <vector>

#include "pteron/runtime/executor/method_meta.h"
#include "pteron/runtime/program_reader/program_data.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {

// `method` must have passed check_method(). The result borrows from `data`.
MethodMeta read_method_meta(const ProgramData& data, const schema::Method& method);

// "aten::add.out", or "aten::add" if the overload is empty.
std::string qualified_name(const schema::Operator& op);

// Per value: whether an instruction reads or writes it, directly or through a list.
std::vector<bool> used_values(const schema::Method& method);

}  // namespace pteron
