#include "pteron/runtime/program_reader/method_checks.h"

#include <string>
#include <vector>

#include "pteron/runtime/program_reader/tensor_storage.h"
#include "pteron/runtime/program_reader/value_checks.h"

namespace pteron {
namespace {

using flatbuffers::uoffset_t;
using Indices = flatbuffers::Vector<int32_t>;

// Longest operator name, overload included.
constexpr size_t kMaxOperatorName = 99;
// A value may be several outputs, each with a description.
constexpr size_t kMaxRepeatedOutputs = 10'000;

template <typename T>
size_t size_of(const flatbuffers::Vector<T>* vector) {
  return vector ? vector->size() : 0;
}

class MethodChecks final {
 public:
  MethodChecks(const ProgramData& data, const schema::Method& method, ErrorList* errors)
      : data_(data), method_(method), errors_(errors), values_(data, method, errors) {}

  void check() {
    const size_t before = errors_->count();
    values_.check();
    check_operators();
    check_delegates();
    // The following checks require valid values.
    if (errors_->count() > before) return;
    has_pointer_.resize(values_.size());
    seen_lists_.resize(values_.size());
    check_ends(method_.inputs(), "input");
    check_ends(method_.outputs(), "output");
    check_chains();
    if (errors_->count() > before) return;
    seen_lists_.assign(values_.size(), false);
    check_pointers();
  }

 private:
  const char* name() const { return method_.name()->c_str(); }

  bool in_range(int64_t index) const {
    return index >= 0 && static_cast<uint64_t>(index) < values_.size();
  }

  void check_operators() {
    for (size_t i = 0; i < size_of(method_.operators()); ++i) {
      const schema::Operator& op = *method_.operators()->Get(static_cast<uoffset_t>(i));
      if (!op.name() || op.name()->size() == 0) {
        errors_->add("method %s: operator %zu has no name", name(), i);
      } else if (op.name()->size() + (op.overload() ? op.overload()->size() + 1 : 0) >
                 kMaxOperatorName) {
        errors_->add("method %s: the name of operator %zu is longer than %zu", name(), i,
                     kMaxOperatorName);
      }
    }
  }

  void check_delegates() {
    for (size_t i = 0; i < size_of(method_.delegates()); ++i) {
      const schema::Delegate& delegate = *method_.delegates()->Get(static_cast<uoffset_t>(i));
      if (!delegate.id() || delegate.id()->size() == 0) {
        errors_->add("method %s: delegate %zu has no backend id", name(), i);
      }
      check_processed(i, delegate.processed());
      for (size_t k = 0; k < size_of(delegate.compile_specs()); ++k) {
        if (!delegate.compile_specs()->Get(static_cast<uoffset_t>(k))->key()) {
          errors_->add("method %s: compile spec %zu of delegate %zu has no key", name(), k, i);
        }
      }
    }
  }

  void check_processed(size_t i, const schema::DelegateData* processed) {
    if (!processed) {
      errors_->add("method %s: delegate %zu has no processed data", name(), i);
      return;
    }
    const bool is_inline = processed->location() == schema::DelegateDataLocation::Inline;
    if (!is_inline && processed->location() != schema::DelegateDataLocation::Segment) {
      errors_->add("method %s: the data of delegate %zu is at location %d, known are 0 and 1",
                   name(), i, static_cast<int>(processed->location()));
      return;
    }
    const size_t count =
        is_inline ? size_of(data_.root().inline_delegate_data()) : data_.segments().size();
    if (processed->index() >= count) {
      errors_->add("method %s: the data of delegate %zu is in %s %u of %zu", name(), i,
                   is_inline ? "blob" : "segment", processed->index(), count);
    }
  }

  // Inputs and outputs.
  void check_ends(const Indices* indices, const char* what) {
    if (!indices) {
      errors_->add("method %s: it has no list of %ss", name(), what);
      return;
    }
    const bool is_input = indices == method_.inputs();
    if (indices->size() > values_.size() + kMaxRepeatedOutputs) {
      errors_->add("method %s: %u %ss of %zu values", name(), indices->size(), what,
                   values_.size());
      return;
    }
    for (uoffset_t i = 0; i < indices->size(); ++i) {
      const int32_t index = indices->Get(i);
      if (!in_range(index)) {
        errors_->add("method %s: %s %u is value %d of %zu", name(), what, i, index, values_.size());
        continue;
      }
      if (is_input && has_pointer_[index]) {
        errors_->add("method %s: input %u is value %d, which is an input already", name(), i,
                     index);
      }
      has_pointer_[index] = true;  // provided by the caller
      if (!is_input) continue;
      const schema::Value kind = values_.kind(index);
      if (kind > schema::Value::String) {
        errors_->add("method %s: input %u is a %s; lists cannot be inputs", name(), i,
                     schema::EnumNameValue(kind));
      } else if (kind == schema::Value::Tensor &&
                 TensorStorage::of(*values_.tensor(index)).is_constant()) {
        errors_->add("method %s: input %u is a constant", name(), i);
      }
    }
  }

  void check_chains() {
    if (size_of(method_.chains()) == 0) {
      errors_->add("method %s: it has no chain of instructions", name());
      return;
    }
    for (size_t c = 0; c < method_.chains()->size(); ++c) {
      if (!method_.chains()->Get(static_cast<uoffset_t>(c))->instructions()) {
        errors_->add("method %s: chain %zu has no list of instructions", name(), c);
      }
    }
    for_each_instruction([this](const schema::Instruction& instruction, size_t chain_length) {
      check_instruction(instruction, chain_length);
    });
  }

  template <typename Check>
  void for_each_instruction(const Check& check) {
    for (size_t c = 0; c < method_.chains()->size(); ++c) {
      const auto* const instructions =
          method_.chains()->Get(static_cast<uoffset_t>(c))->instructions();
      for (size_t i = 0; i < size_of(instructions); ++i) {
        position_ = {c, i};
        check(*instructions->Get(static_cast<uoffset_t>(i)), instructions->size());
      }
    }
  }

  void check_instruction(const schema::Instruction& instruction, size_t chain_length) {
    using schema::InstructionCall;
    const InstructionCall type = instruction.call_type();
    if (type < InstructionCall::KernelCall || type > InstructionCall::FreeCall) {
      problem("it has unknown kind " + std::to_string(static_cast<int>(type)));
      return;
    }
    if (!instruction.call()) {
      problem("it is empty");
      return;
    }
    switch (type) {
      case InstructionCall::KernelCall: {
        const schema::KernelCall& call = *instruction.call_as_KernelCall();
        check_callee(call.operator_index(), size_of(method_.operators()), "operator");
        check_arguments(call.args());
        check_returned(call.args());
        break;
      }
      case InstructionCall::DelegateCall: {
        const schema::DelegateCall& call = *instruction.call_as_DelegateCall();
        check_callee(call.delegate_index(), size_of(method_.delegates()), "delegate");
        check_arguments(call.args());
        break;
      }
      case InstructionCall::MoveCall:
        check_move(*instruction.call_as_MoveCall());
        break;
      case InstructionCall::JumpFalseCall:
        check_jump(*instruction.call_as_JumpFalseCall(), chain_length);
        break;
      case InstructionCall::FreeCall: {
        const int32_t index = instruction.call_as_FreeCall()->value_index();
        if (check_index(index, "it frees") && values_.kind(index) != schema::Value::Tensor) {
          problem("it frees value " + std::to_string(index) + ", which is no tensor");
        }
        break;
      }
      default:
        break;
    }
  }

  void check_callee(int32_t index, size_t count, const char* what) {
    if (index >= 0 && static_cast<size_t>(index) < count) return;
    problem("it calls " + std::string(what) + " " + std::to_string(index) + " of " +
            std::to_string(count));
  }

  void check_arguments(const Indices* arguments) {
    if (!arguments) {
      problem("it has no list of arguments");
      return;
    }
    for (const int32_t index : *arguments) check_index(index, "an argument is");
  }

  // The last argument of a kernel is its output.
  void check_returned(const Indices* arguments) {
    if (size_of(arguments) == 0 || !in_range(*(arguments->end() - 1))) return;
    const int32_t index = *(arguments->end() - 1);
    const auto check = [this](int64_t value) {
      const schema::Tensor* const tensor = values_.tensor(static_cast<size_t>(value));
      if (tensor && TensorStorage::of(*tensor).is_constant()) {
        problem("it writes to value " + std::to_string(value) + ", a constant");
      }
    };
    check(index);
    const auto* const list = method_.values()->Get(index)->value_as_TensorList();
    if (!list || !list->items() || seen_lists_[index]) return;
    seen_lists_[index] = true;
    for (const int32_t item : *list->items()) check(item);
  }

  void check_move(const schema::MoveCall& move) {
    const bool from = check_index(move.from_index(), "it moves from");
    const bool to = check_index(move.to_index(), "it moves to");
    if (!from || !to) return;
    const schema::Value from_kind = values_.kind(move.from_index());
    const schema::Value to_kind = values_.kind(move.to_index());
    if (from_kind != to_kind) {
      problem(std::string("it moves ") + schema::EnumNameValue(from_kind) + " to " +
              schema::EnumNameValue(to_kind));
    } else if (from_kind > schema::Value::String) {
      problem(std::string("it moves a list (") + schema::EnumNameValue(from_kind) + ")");
    }
    has_pointer_[move.to_index()] = true;  // at the latest by a move
  }

  void check_jump(const schema::JumpFalseCall& jump, size_t chain_length) {
    if (jump.destination() < 0 || static_cast<size_t>(jump.destination()) > chain_length) {
      problem("it jumps to " + std::to_string(jump.destination()) + " of " +
              std::to_string(chain_length));
    }
    if (!check_index(jump.condition_index(), "its condition is")) return;
    const schema::Tensor* const tensor = values_.tensor(jump.condition_index());
    const bool is_bool = values_.kind(jump.condition_index()) == schema::Value::Bool;
    if (!is_bool &&
        (!tensor || static_cast<ScalarType>(tensor->scalar_type()) != ScalarType::Bool)) {
      problem("its condition, value " + std::to_string(jump.condition_index()) +
              ", is neither a bool nor a bool tensor");
    } else if (tensor && TensorStorage::of(*tensor).device.type != DeviceType::CPU) {
      problem("its condition is not on the CPU");
    }
  }

  bool check_index(int32_t index, const char* what) {
    if (in_range(index)) return true;
    problem(std::string(what) + " value " + std::to_string(index) + " of " +
            std::to_string(values_.size()));
    return false;
  }

  // A tensor that is read or written must have memory.
  void check_pointers() {
    for_each_instruction([this](const schema::Instruction& instruction, size_t) {
      const Indices* arguments = nullptr;
      if (const auto* const call = instruction.call_as_KernelCall()) arguments = call->args();
      if (const auto* const call = instruction.call_as_DelegateCall()) arguments = call->args();
      for (size_t i = 0; i < size_of(arguments); ++i) {
        check_pointer(arguments->Get(static_cast<uoffset_t>(i)));
      }
      if (const auto* const move = instruction.call_as_MoveCall())
        check_pointer(move->from_index());
      if (const auto* const jump = instruction.call_as_JumpFalseCall()) {
        check_pointer(jump->condition_index());
      }
    });
  }

  void check_pointer(int32_t index) {
    if (values_.is_unset_tensor(index) && !has_pointer_[index]) {
      problem("nothing gives memory to value " + std::to_string(index));
      has_pointer_[index] = true;  // reported once
    }
    const schema::EValue& value = *method_.values()->Get(static_cast<uoffset_t>(index));
    const Indices* items = nullptr;
    if (const auto* const list = value.value_as_TensorList()) items = list->items();
    if (const auto* const list = value.value_as_OptionalTensorList()) items = list->items();
    if (!items || seen_lists_[index]) return;
    seen_lists_[index] = true;
    for (const int32_t item : *items) {
      if (item >= 0) check_pointer(item);
    }
  }

  void problem(const std::string& text) {
    errors_->add("method %s: chain %zu, instruction %zu: %s", name(), position_.chain,
                 position_.instruction, text.c_str());
  }

  struct Position {
    size_t chain = 0;
    size_t instruction = 0;
  };
  const ProgramData& data_;
  const schema::Method& method_;
  ErrorList* errors_;
  ValueChecks values_;
  Position position_;              // the instruction that is being checked
  std::vector<bool> has_pointer_;  // per value: the caller or a move provides memory
  std::vector<bool> seen_lists_;   // per value: each is visited once
};

}  // namespace

void check_method(const ProgramData& data, const schema::Method& method, ErrorList* errors) {
  MethodChecks(data, method, errors).check();
}

}  // namespace pteron
