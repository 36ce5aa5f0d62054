#include "pteron/runtime/executor/method_state.h"

#include <algorithm>

namespace pteron {
namespace {

bool lacks_memory(const EValue& value) {
  return value.is_tensor() && !value.tensor().data() && value.tensor().numel() > 0;
}

// Whether a tensor among the arguments, or in a list among them, has no memory.
bool any_lacks_memory(Span<EValue* const> arguments) {
  for (EValue* const& argument : arguments) {
    for (const EValue* const item : tensors_in(argument)) {
      if (item && lacks_memory(*item)) return true;
    }
  }
  return false;
}

// The condition of a jump: a bool, or all() of a bool tensor.
Result<bool> truth(const EValue& condition) {
  if (condition.is_bool()) return condition.to_bool();
  if (condition.is_tensor()) {
    const Tensor& tensor = condition.tensor();
    if (tensor.dtype() == ScalarType::Bool && tensor.device().type == DeviceType::CPU &&
        !lacks_memory(condition)) {
      const uint8_t* const elements = tensor.data_as<const uint8_t>();
      return std::find(elements, elements + tensor.numel(), uint8_t{0}) ==
             elements + tensor.numel();
    }
  }
  return make_error(
      Error::InvalidProgram,
      "the condition of a jump is %s, expected a bool or a bool tensor on the CPU",
      condition.is_tensor() ? condition.tensor().describe().c_str() : condition.kind());
}

}  // namespace

bool overlap(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  return a.device() == b.device() && a.capacity_nbytes() > 0 && b.capacity_nbytes() > 0 &&
         a_begin < b_begin + b.capacity_nbytes() && b_begin < a_begin + a.capacity_nbytes();
}

bool output_overlaps(Span<EValue* const> arguments) {
  if (arguments.empty()) return false;
  EValue* const& output = *(arguments.end() - 1);
  for (const EValue* const written : tensors_in(output)) {
    for (EValue* const& argument : arguments) {
      if (argument == output) continue;
      for (const EValue* const read : tensors_in(argument)) {
        if (written && read && written != read && overlap(written->tensor(), read->tensor())) {
          return true;
        }
      }
    }
  }
  return false;
}

Method::State::~State() {
  // In reverse, so that the first delegate is destroyed last.
  while (!delegates.empty()) delegates.pop_back();
}

Error Method::State::run() {
  const Instruction* const begin = instructions.data();
  const size_t count = instructions.size();
  uint64_t left = limits.instructions;
  for (size_t next = 0; next < count;) {
    const Instruction& instruction = begin[next];
    if (__builtin_expect(left-- == 0, 0)) {
      return explain(next, make_error(Error::OutOfResources,
                                      "it has run %llu instructions without an end; is there an "
                                      "endless loop, or must the limit instructions be higher?",
                                      static_cast<unsigned long long>(limits.instructions)));
    }
    if (__builtin_expect(control.is_asked(), 0)) {
      if (Error error = control.look(); !error.ok()) return explain(next, std::move(error));
    }
    switch (instruction.kind) {
      case Instruction::Kind::Kernel:
      case Instruction::Kind::Delegate: {
        Error error = call(instruction);
        if (__builtin_expect(!error.ok(), 0)) {
          // A delegate may not know the actual cause.
          Error told = control.is_asked() ? control.look_from_other_thread() : Error(Error::Ok);
          return explain(next, told.ok() ? std::move(error) : std::move(told));
        }
        ++next;
        break;
      }
      case Instruction::Kind::Move: {
        const TraceScope scope(tracer, "move", "move");
        *instruction.to = *instruction.from;
        ++next;
        break;
      }
      case Instruction::Kind::JumpFalse: {
        const TraceScope scope(tracer, "jump", "jump");
        Result<bool> condition = truth(*instruction.from);
        if (__builtin_expect(!condition.ok(), 0)) return explain(next, condition.take_error());
        next = *condition ? next + 1 : instruction.destination;
        break;
      }
      case Instruction::Kind::Nothing:
        ++next;
        break;
    }
  }
  return Error::Ok;
}

Error Method::State::call(const Instruction& instruction) {
  if (__builtin_expect(instruction.check_arguments, 0)) {
    PTERON_CHECK_OR_RETURN(!any_lacks_memory(instruction.arguments), Error::InvalidProgram,
                           "an argument has no memory; nothing was moved to it yet");
  }
  if (__builtin_expect(instruction.check_overlap, 0)) {
    PTERON_CHECK_OR_RETURN(!output_overlaps(instruction.arguments), Error::InvalidArgument,
                           "what it writes overlaps another argument; give it a copy");
  }
  return __builtin_expect(tracer != nullptr, 0) ? call_traced(instruction)
                                                : call_function(instruction);
}

Error Method::State::call_function(const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::Kernel) {
    return instruction.kernel(kernel_context, instruction.arguments);
  }
  BackendExecutionContext context;
  context.method_name = meta.name;
  context.tracer = tracer;
  Error error = instruction.delegate->execute(context, instruction.arguments);
  if (__builtin_expect(preparation != nullptr, 0) && error.ok()) {
    prepare_delegate(instruction, context);
  }
  return error;
}

Error Method::State::call_traced(const Instruction& instruction) {
  const bool is_kernel = instruction.kind == Instruction::Kind::Kernel;
  uint64_t event = 0;
  Error error;
  {
    const TraceScope scope(tracer, is_kernel ? "kernel" : "delegate", instruction.name);
    event = scope.event();
    error = call_function(instruction);
  }
  // Not in the event's time, and with the shapes of outputs.
  EventDetails details;
  std::string shapes;
  for (EValue* const& argument : instruction.arguments) {
    for (const EValue* const value : tensors_in(argument)) {
      if (!value) continue;
      if (!shapes.empty()) shapes += ' ';
      shapes += value->tensor().describe();
      details.nbytes += value->tensor().nbytes();
    }
  }
  details.shapes = shapes;
  if (is_kernel) details.op = instruction.name;
  tracer->describe(event, details);
  return error;
}

Error Method::State::explain(size_t index, Error error) const {
  std::string where = "method " + meta.name + ", instruction " + std::to_string(index);
  const std::string_view name = instructions[index].name;
  if (!name.empty()) where += " (" + std::string(name) + ")";
  return std::move(error).with_context(where);
}

void Method::State::restore_slots(size_t count) {
  for (size_t i = 0; i < count; ++i) *snapshots[i].first = snapshots[i].second;
}

Error Method::State::check_outputs() const {
  for (const EValue* const output : uncertain_outputs) {
    PTERON_CHECK_OR_RETURN(!lacks_memory(*output), Error::InvalidProgram,
                           "method %s: an output, or a tensor in one, %s, has no memory; no "
                           "instruction that ran gave it any",
                           meta.name.c_str(), output->tensor().describe().c_str());
  }
  return Error::Ok;
}

Error Method::State::write_initial_values() {
  for (const InitialValue& initial : initial_values) {
    PTERON_RETURN_IF_ERROR(copy_to_device(initial.destination, initial.bytes, initial.device));
  }
  return Error::Ok;
}

Error Method::State::reset_mutable_buffers() {
  for (Session::Buffer* const buffer : mutable_buffers) {
    PTERON_RETURN_IF_ERROR(Session::reset(*buffer));
  }
  return Error::Ok;
}

bool Method::State::owns(const void* data, size_t nbytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const auto touches = [&](const PlannedBuffer& memory) {
    const auto start = reinterpret_cast<uintptr_t>(memory.data());
    return begin < start + memory.nbytes() && start < begin + nbytes;
  };
  return touches(cpu_memory) || std::any_of(other_memory.begin(), other_memory.end(), touches);
}

}  // namespace pteron
