// The part of MethodLoader for code: delegates, instructions, inputs and outputs.
#include <algorithm>
#include <utility>

#include "pteron/runtime/executor/method_loader.h"
#include "pteron/runtime/executor/method_meta_reader.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {

using flatbuffers::uoffset_t;

Error MethodLoader::init_delegates() {
  const std::vector<DelegateMeta>& delegates = state_->meta.delegates;
  state_->delegates.reserve(delegates.size());
  for (size_t i = 0; i < delegates.size(); ++i) {
    Result<std::unique_ptr<Delegate>> delegate =
        init_delegate(delegates[i], *method_.delegates()->Get(static_cast<uoffset_t>(i)));
    if (!delegate.ok()) {
      return delegate.take_error().with_context("delegate " + std::to_string(i) + " (" +
                                                std::string(delegates[i].backend_id) + ")");
    }
    state_->delegates.push_back(std::move(*delegate));
  }
  return Error::Ok;
}

Result<std::unique_ptr<Delegate>> MethodLoader::init_delegate(const DelegateMeta& meta,
                                                              const schema::Delegate& delegate) {
  const std::string id(meta.backend_id);
  TraceScope scope(options_.tracer, "init", meta.backend_id);
  PTERON_RETURN_IF_ERROR(data_.verify_processed(delegate));
  BackendInitContext context;
  context.method_name = state_->meta.name;
  context.named_data = &data_.named_data();
  context.devices = &options_.devices;
  context.tracer = options_.tracer;
  context.budget = &budget_;
  context.shared_state = &state_->shared_states[id];
  const auto options = options_.backend_options.find(id);
  if (options != options_.backend_options.end()) context.options = options->second;
  Result<std::unique_ptr<Delegate>> made =
      find_backend(meta.backend_id)->init(context, meta.processed, meta.compile_specs);
  if (made.ok() && !*made) {
    return Error(Error::Internal, "the backend's init() returned neither a delegate nor an error");
  }
  return made;
}

void MethodLoader::find_writers() {
  redirected_.resize(state_->values.size());
  touched_.resize(state_->values.size());
  delegated_.resize(state_->values.size());
  written_.resize(state_->values.size());
  std::vector<std::pair<int32_t, int32_t>> aliases;  // a value, and the value whose memory it gets
  for (const schema::Chain* const chain : *method_.chains()) {
    bool always = true;  // until the first jump
    for (const schema::Instruction* const instruction : *chain->instructions()) {
      if (const schema::MoveCall* const move = instruction->call_as_MoveCall()) {
        redirected_[move->to_index()] = true;
        touched_[move->from_index()] = true;
        aliases.emplace_back(move->to_index(), move->from_index());
      } else if (const schema::KernelCall* const call = instruction->call_as_KernelCall()) {
        const schema::Operator& op = *method_.operators()->Get(call->operator_index());
        const bool views = find_kernel(qualified_name(op))->memory == KernelMemory::View;
        for (uoffset_t i = 0; i < call->args()->size(); ++i) {
          touched_[call->args()->Get(i)] = true;
          // Any of them may be its output.
          const bool is_tensor = state_->values[call->args()->Get(i)].is_tensor();
          if (!views || i == 0 || !is_tensor) continue;
          redirected_[call->args()->Get(i)] = true;
          aliases.emplace_back(call->args()->Get(i), call->args()->Get(0));
        }
        if (!views && call->args()->size() > 0) {
          written_[call->args()->Get(call->args()->size() - 1)] = true;
        }
      } else if (const schema::DelegateCall* const call = instruction->call_as_DelegateCall()) {
        const Delegate& delegate = *state_->delegates[call->delegate_index()];
        for (uoffset_t i = 0; i < call->args()->size(); ++i) {
          const int32_t index = call->args()->Get(i);
          delegated_[index] = delegated_[index] || always;
          written_[index] = written_[index] || delegate.writes_input(i);
        }
      } else if (instruction->call_as_JumpFalseCall()) {
        always = false;
      }
    }
  }
  for (auto alias = aliases.rbegin(); alias != aliases.rend(); ++alias) {
    if (written_[alias->first]) written_[alias->second] = true;
  }
  for (size_t i = 0; i < state_->values.size(); ++i) {
    if (!touched_[i]) continue;
    EValue* const value = &state_->values[i];
    for (const EValue* const item : tensors_in(value)) {
      if (item) touched_[item - state_->values.data()] = true;
    }
  }
}

Error MethodLoader::make_instructions() {
  find_writers();
  if (method_.operators()) {
    for (const schema::Operator* const op : *method_.operators()) {
      state_->operator_names.push_back(qualified_name(*op));
    }
  }
  ErrorList errors;
  state_->instructions.reserve(state_->meta.num_instructions);
  for (const schema::Chain* const chain : *method_.chains()) {
    const size_t chain_begin = state_->instructions.size();
    for (const schema::Instruction* const instruction : *chain->instructions()) {
      state_->instructions.push_back(make_instruction(*instruction, chain_begin));
      Error error = check_arguments(&state_->instructions.back());
      if (error.ok()) continue;
      const std::string position = std::to_string(state_->instructions.size() - 1);
      errors.add(std::move(error).with_context("instruction " + position));
    }
  }
  return errors.to_error("");
}

Instruction MethodLoader::make_instruction(const schema::Instruction& source, size_t chain_begin) {
  using schema::InstructionCall;
  Instruction instruction;
  const flatbuffers::Vector<int32_t>* arguments = nullptr;
  const auto value = [this](int32_t index) { return &state_->values[index]; };
  switch (source.call_type()) {
    case InstructionCall::KernelCall: {
      const schema::KernelCall& call = *source.call_as_KernelCall();
      instruction.kind = Instruction::Kind::Kernel;
      instruction.name = state_->operator_names[call.operator_index()];
      instruction.kernel = find_kernel(instruction.name)->function;
      arguments = call.args();
      break;
    }
    case InstructionCall::DelegateCall: {
      const schema::DelegateCall& call = *source.call_as_DelegateCall();
      instruction.kind = Instruction::Kind::Delegate;
      instruction.name = state_->meta.delegates[call.delegate_index()].backend_id;
      instruction.delegate = state_->delegates[call.delegate_index()].get();
      arguments = call.args();
      break;
    }
    case InstructionCall::MoveCall: {
      const schema::MoveCall& move = *source.call_as_MoveCall();
      instruction.kind = Instruction::Kind::Move;
      instruction.from = value(move.from_index());
      instruction.to = value(move.to_index());
      break;
    }
    case InstructionCall::JumpFalseCall: {
      const schema::JumpFalseCall& jump = *source.call_as_JumpFalseCall();
      instruction.kind = Instruction::Kind::JumpFalse;
      instruction.from = value(jump.condition_index());
      instruction.destination = chain_begin + static_cast<size_t>(jump.destination());
      break;
    }
    default:
      break;  // FreeCall: only unbounded tensors have memory to free, and there are none
  }
  if (arguments) instruction.arguments = pointers_to(arguments);
  return instruction;
}

// Checks a call's memory at load, as far as it is known, and marks what must be checked at run
// time.
Error MethodLoader::check_arguments(Instruction* instruction) {
  const bool is_kernel = instruction->kind == Instruction::Kind::Kernel;
  const KernelMemory memory =
      is_kernel ? find_kernel(instruction->name)->memory : KernelMemory::Shared;
  if (memory == KernelMemory::View) return Error::Ok;
  uint64_t comparisons = 0;
  for (EValue* const& argument : instruction->arguments) comparisons += tensors_in(argument).size();
  if (comparisons > 0 && memory == KernelMemory::Separate) {
    comparisons *= tensors_in(*(instruction->arguments.end() - 1)).size() + 1;
  }
  PTERON_CHECK_OR_RETURN(comparisons <= comparisons_left_, Error::InvalidProgram,
                         "lists among the arguments have more items than a program needs");
  comparisons_left_ -= comparisons;
  size_t num_callers = 0;
  for (EValue* const& argument : instruction->arguments) {
    for (const EValue* const item : tensors_in(argument)) {
      if (!item) continue;
      instruction->check_arguments |= redirected_[item - state_->values.data()];
      if (!item->tensor().data()) ++num_callers;
    }
  }
  if (memory == KernelMemory::Shared) return Error::Ok;
  instruction->check_overlap = instruction->check_arguments || num_callers > 1;
  if (instruction->check_overlap) return Error::Ok;
  PTERON_CHECK_OR_RETURN(!output_overlaps(instruction->arguments), Error::InvalidProgram,
                         "what %.*s writes overlaps another argument, and the kernel is not "
                         "registered as right then",
                         static_cast<int>(instruction->name.size()), instruction->name.data());
  return Error::Ok;
}

// For each value whether it is a tensor that shares memory with another one.
std::vector<bool> MethodLoader::find_reused() const {
  struct Range {
    const uint8_t* begin;
    const uint8_t* end;
    size_t value;
  };
  std::vector<Range> ranges;
  for (size_t i = 0; i < state_->values.size(); ++i) {
    if (!state_->values[i].is_tensor()) continue;
    const Tensor& tensor = state_->values[i].tensor();
    const uint8_t* const begin = tensor.data_as<const uint8_t>();
    if (begin && tensor.capacity_nbytes() > 0) {
      ranges.push_back({begin, begin + tensor.capacity_nbytes(), i});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<bool> reused(state_->values.size());
  const Range* longest = nullptr;  // the maximum end of those before
  for (const Range& range : ranges) {
    if (longest && range.begin < longest->end) reused[range.value] = reused[longest->value] = true;
    if (!longest || range.end > longest->end) longest = &range;
  }
  return reused;
}

// Whether the memory planned for a tensor is used only by delegates, only for this tensor, and in
// every run.
bool MethodLoader::is_delegates_alone(size_t index, const std::vector<bool>& reused) const {
  const EValue& value = state_->values[index];
  if (!value.is_tensor() || !delegated_[index] || touched_[index] || reused[index]) return false;
  const Tensor& tensor = value.tensor();
  for (const auto& initial : state_->initial_values) {
    if (initial.destination == tensor.data()) return false;
  }
  return state_->owns(tensor.data(), tensor.nbytes());  // otherwise it is a mutable buffer
}

void MethodLoader::prepare_ends() {
  MethodMeta& meta = state_->meta;
  const std::vector<bool> reused = find_reused();
  std::vector<bool> is_input(state_->values.size());
  for (size_t i = 0; i < meta.inputs.size(); ++i) {
    const int32_t index = method_.inputs()->Get(static_cast<uoffset_t>(i));
    is_input[index] = true;
    Method::State::Input input;
    input.value = &state_->values[index];
    input.needs_value = meta.inputs[i].kind == ValueKind::Tensor || meta.inputs[i].symbolic;
    input.is_overwritten =
        input.needs_value && (redirected_[index] || (meta.inputs[i].planned && reused[index]));
    if (redirected_[index]) input.prototype = std::make_unique<EValue>(*input.value);
    if (input.needs_value) ++state_->num_missing;
    meta.inputs[i].written =
        meta.inputs[i].kind == ValueKind::Tensor && !meta.inputs[i].planned && written_[index];
    if (meta.inputs[i].written) state_->written_inputs.push_back(i);
    state_->inputs.push_back(std::move(input));
  }
  std::vector<bool> is_output(state_->values.size());
  std::vector<EValue*> uncertain;
  for (size_t i = 0; i < meta.outputs.size(); ++i) {
    const int32_t index = method_.outputs()->Get(static_cast<uoffset_t>(i));
    const bool is_repeated = is_output[index];  // the caller provides the memory of the first
    is_output[index] = true;
    Method::State::Output output;
    output.value = &state_->values[index];
    const bool has_elements = meta.outputs[i].nbytes > 0;
    output.needs_data = meta.outputs[i].kind == ValueKind::Tensor && has_elements &&
                        !meta.outputs[i].planned && !meta.outputs[i].constant && !is_input[index] &&
                        !redirected_[index] && !is_repeated;
    output.needs_zeros = output.needs_data && (touched_[index] || !delegated_[index]);
    output.takes_data = has_elements && meta.outputs[i].planned && !is_input[index] &&
                        !redirected_[index] && !is_repeated && is_delegates_alone(index, reused);
    if (output.needs_data) ++state_->num_missing;
    state_->outputs.push_back(output);
    if (!is_repeated) uncertain.push_back(output.value);
  }
  for (EValue* const& value : uncertain) {
    for (EValue* const item : tensors_in(value)) {
      if (!item) continue;
      const size_t slot = item - state_->values.data();
      const bool is_given = item->tensor().data() || is_input[slot] || is_output[slot];
      if (redirected_[slot] || !is_given) state_->uncertain_outputs.push_back(item);
    }
  }
}

void MethodLoader::take_snapshots() {
  std::vector<bool> is_input(state_->values.size());
  for (const int32_t index : *method_.inputs()) is_input[index] = true;
  for (size_t i = 0; i < state_->values.size(); ++i) {
    EValue& slot = state_->values[i];
    // Kernels write ints, doubles and bools; moves write anything.
    const bool may_change = redirected_[i] || slot.is_int() || slot.is_double() || slot.is_bool();
    if (may_change && !is_input[i]) state_->snapshots.emplace_back(&slot, slot);
  }
  const auto first_other =
      std::stable_partition(state_->snapshots.begin(), state_->snapshots.end(),
                            [](const auto& snapshot) { return snapshot.second.is_tensor(); });
  state_->num_redirected = static_cast<size_t>(first_other - state_->snapshots.begin());
}

}  // namespace pteron
