// An instruction with indices resolved to pointers.
#pragma once

#include <cstdint>
#include <string_view>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/kernel/registry.h"

namespace pteron {

struct Instruction {
  enum class Kind : uint8_t { Kernel, Delegate, Move, JumpFalse, Nothing };

  Kind kind = Kind::Nothing;
  // Checks needed before the call: an argument may be a tensor without memory, since a move assigns
  // it; or its memory is only known at run time and may overlap a kernel's output.
  bool check_arguments = false;
  bool check_overlap = false;
  KernelFunction kernel = nullptr;
  Delegate* delegate = nullptr;
  Span<EValue* const> arguments;  // of the call
  EValue* from = nullptr;         // Move: the source; JumpFalse: the condition
  EValue* to = nullptr;           // Move
  size_t destination = 0;         // JumpFalse: index into the method's instructions
  std::string_view name;          // operator or backend name, for messages and traces
};

// Whether two tensors share memory.
bool overlap(const Tensor& a, const Tensor& b);
// Whether a tensor of the last argument, which a kernel writes, shares memory with one of another.
bool output_overlaps(Span<EValue* const> arguments);

// The tensors in a value; a missing optional one is null.
inline Span<EValue* const> tensors_in(EValue* const& value) {
  if (value->is_tensor()) return {&value, 1};
  if (value->is_tensor_list()) return value->to_tensor_list().items;
  if (value->is_optional_tensor_list()) return value->to_optional_tensor_list().items;
  return {};
}

}  // namespace pteron
