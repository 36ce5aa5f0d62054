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
  // An argument may hold a tensor without memory, since it is moved to; look before calling.
  bool check_arguments = false;
  KernelFunction kernel = nullptr;
  Delegate* delegate = nullptr;
  Span<EValue* const> arguments;  // of the call
  EValue* from = nullptr;         // Move: the source; JumpFalse: the condition
  EValue* to = nullptr;           // Move
  size_t destination = 0;         // JumpFalse: index into the method's instructions
  std::string_view name;          // of the operator or backend, for messages and traces
};

}  // namespace pteron
