// An instruction as the method runs it: indices resolved to pointers.
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
  // Look before calling: an argument may hold a tensor without memory, since it is moved to; or one
  // whose memory is only known now, and a kernel's output may overlap it.
  bool check_arguments = false;
  bool check_overlap = false;
  KernelFunction kernel = nullptr;
  Delegate* delegate = nullptr;
  Span<EValue* const> arguments;  // of the call
  EValue* from = nullptr;         // Move: the source; JumpFalse: the condition
  EValue* to = nullptr;           // Move
  size_t destination = 0;         // JumpFalse: index into the method's instructions
  std::string_view name;          // of the operator or backend, for messages and traces
};

// Whether two tensors share memory.
bool overlap(const Tensor& a, const Tensor& b);
// Whether a tensor of the last argument, which a kernel writes, shares memory with one of another.
bool output_overlaps(Span<EValue* const> arguments);

// The tensors in a value; an optional one that is not there is null.
inline Span<EValue* const> tensors_in(EValue* const& value) {
  if (value->is_tensor()) return {&value, 1};
  if (value->is_tensor_list()) return value->to_tensor_list().items;
  if (value->is_optional_tensor_list()) return value->to_optional_tensor_list().items;
  return {};
}

}  // namespace pteron
