#include "pteron/runtime/executor/method.h"

#include <utility>

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/executor/input_checks.h"
#include "pteron/runtime/executor/method_state.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {

Method::Method(std::unique_ptr<State> state) : state_(std::move(state)) {}
Method::~Method() = default;

const MethodMeta& Method::meta() const { return state_->meta; }
const Program& Method::program() const { return *state_->program; }
Session& Method::session() const { return *state_->session; }
size_t Method::inputs_size() const { return state_->inputs.size(); }
size_t Method::outputs_size() const { return state_->outputs.size(); }

Error Method::set_input(size_t index, const EValue& value) {
  PTERON_RETURN_IF_ERROR(state_->check_idle());
  PTERON_CHECK_OR_RETURN(index < inputs_size(), Error::InvalidArgument,
                         "method %s: there is no input %zu, it takes %zu", name().c_str(), index,
                         inputs_size());
  if (__builtin_expect(!state_->is_input(index, value), 0)) {
    return catch_exceptions([&] { return state_->explain_inputs({&value, 1}, index); });
  }
  return state_->write_input(index, value);
}

Error Method::set_inputs(Span<const EValue> values) {
  PTERON_RETURN_IF_ERROR(state_->check_idle());
  PTERON_CHECK_OR_RETURN(values.size() == inputs_size(), Error::InvalidArgument,
                         "method %s: %zu inputs were given, it takes %zu", name().c_str(),
                         values.size(), inputs_size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (__builtin_expect(!state_->is_input(i, values[i]), 0)) {
      return catch_exceptions([&] { return state_->explain_inputs(values, 0); });
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    PTERON_RETURN_IF_ERROR(state_->write_input(i, values[i]));
  }
  return Error::Ok;
}

Error Method::set_output_data(size_t index, void* data, size_t nbytes) {
  PTERON_RETURN_IF_ERROR(state_->check_idle());
  PTERON_CHECK_OR_RETURN(index < outputs_size(), Error::InvalidArgument,
                         "method %s: there is no output %zu, it has %zu", name().c_str(), index,
                         outputs_size());
  State::Output& output = state_->outputs[index];
  PTERON_CHECK_OR_RETURN(output.needs_data || output.takes_data, Error::InvalidState,
                         "method %s: output %zu has memory of its own", name().c_str(), index);
  Tensor& tensor = output.value->tensor();
  PTERON_CHECK_OR_RETURN(data && nbytes >= tensor.max_nbytes(), Error::InvalidArgument,
                         "method %s: output %zu needs %zu bytes, %zu were given", name().c_str(),
                         index, tensor.max_nbytes(), data ? nbytes : 0);
  if (output.needs_zeros) {
    PTERON_RETURN_IF_ERROR(fill_zero(data, tensor.max_nbytes(), tensor.device()));
  }
  tensor.set_data(data, nbytes);
  if (output.needs_data) state_->mark_set(&output.is_set);
  return Error::Ok;
}

Error Method::execute(const ExecuteOptions& options) {
  return state_->run_alone(options, &State::execute);
}

Error Method::prepare(const ExecuteOptions& options) {
  return state_->run_alone(options, &State::prepare);
}

bool Method::cancel() { return state_->control.cancel(); }

const EValue& Method::get_output(size_t index) const { return *state_->outputs[index].value; }

Error Method::set_tracer(EventTracer* tracer) {
  PTERON_RETURN_IF_ERROR(state_->check_idle());
  state_->tracer = tracer;
  state_->kernel_context = KernelContext(tracer);
  return Error::Ok;
}

Error Method::reset_state() {
  PTERON_RETURN_IF_ERROR(state_->check_idle());
  PTERON_RETURN_IF_ERROR(state_->write_initial_values());
  return state_->reset_mutable_buffers();
}

Error Method::State::run_alone(const ExecuteOptions& options, Error (State::*function)()) {
  if (__builtin_expect(is_running.exchange(true, std::memory_order_acquire), 0)) {
    return explain_running();
  }
  Error error = catch_exceptions([&]() -> Error {
    PTERON_CHECK_OR_RETURN(options.timeout == options.timeout, Error::InvalidArgument,
                           "method %s: the timeout is no number", meta.name.c_str());
    const RunControl::Scope scope(control, options, limits.run_time);
    control.set_work(tracer ? &traced_work : nullptr);
    return (this->*function)();
  });
  is_running.store(false, std::memory_order_release);
  return error;
}

Error Method::State::execute() {
  if (__builtin_expect(num_missing > 0, 0)) return explain_missing();
  if (__builtin_expect(!written_inputs.empty(), 0)) PTERON_RETURN_IF_ERROR(check_written_inputs());
  const TraceScope scope(tracer, "method", meta.name);
  restore_slots(num_redirected);
  Error error = catch_exceptions([this] {
    Error failure = run();
    return __builtin_expect(failure.ok(), 1) ? check_outputs() : std::move(failure);
  });
  forget_overwritten_inputs();
  if (__builtin_expect(!error.ok(), 0)) restore_slots(snapshots.size());
  return error;
}

Error Method::State::check_idle() const {
  const bool running = is_running.load(std::memory_order_relaxed);
  return __builtin_expect(running, 0) ? explain_running() : Error(Error::Ok);
}

Error Method::State::explain_running() const {
  return make_error(
      Error::InvalidState,
      "method %s: it is running, on another thread or in a caller of this one, or was "
      "when this process was forked; load it again to run it twice at once",
      meta.name.c_str());
}

bool Method::State::is_in_own_memory(size_t index, const EValue& value) const {
  if (!value.is_tensor() || value.tensor().numel() == 0) return false;
  const void* const data = value.tensor().data();
  const Input& input = inputs[index];
  const EValue& slot = input.prototype ? *input.prototype : *input.value;
  const bool in_place = slot.is_tensor() && slot.tensor().data() == data;
  return !in_place && owns(data, value.tensor().nbytes());
}

bool Method::State::is_input(size_t index, const EValue& value) const {
  return pteron::is_input(meta.inputs[index], value) && !is_in_own_memory(index, value);
}

Error Method::State::check_written_inputs() const {
  for (const size_t i : written_inputs) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const EValue* const value = inputs[k].value;
      if (k == i || value == inputs[i].value || !value->is_tensor()) continue;
      PTERON_CHECK_OR_RETURN(!overlap(inputs[i].value->tensor(), value->tensor()),
                             Error::InvalidArgument,
                             "method %s: input %zu, which it changes in place, shares memory with "
                             "input %zu; pass a copy of one of them",
                             meta.name.c_str(), i, k);
    }
  }
  return Error::Ok;
}

Error Method::State::explain_inputs(Span<const EValue> values, size_t first) const {
  ErrorList errors;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t before = errors.count();
    check_input(first + i, meta.inputs[first + i], values[i], &errors);
    if (errors.count() > before || !is_in_own_memory(first + i, values[i])) continue;
    errors.add(Error::InvalidArgument,
               "input %zu: it is in the method's planned memory, which a run overwrites; copy "
               "it first",
               first + i);
  }
  return errors.to_error("method " + meta.name);
}

Error Method::State::write_input(size_t index, const EValue& value) {
  Input& input = inputs[index];
  EValue& slot = *input.value;
  if (input.prototype) slot = *input.prototype;
  if (value.is_tensor()) {
    const Tensor& source = value.tensor();
    Tensor& tensor = slot.tensor();
    if (!meta.inputs[index].planned) {
      PTERON_RETURN_IF_ERROR(tensor.share_data(source, source.sizes()));
    } else {
      PTERON_RETURN_IF_ERROR(tensor.resize(source.sizes()));
      PTERON_RETURN_IF_ERROR(
          copy_within_device(tensor.data(), source.data(), source.nbytes(), tensor.device()));
    }
  } else if (meta.inputs[index].symbolic) {
    slot = value;
  }
  if (input.needs_value) mark_set(&input.is_set);
  return Error::Ok;
}

void Method::State::forget_overwritten_inputs() {
  for (Input& input : inputs) {
    if (!input.is_overwritten || !input.is_set) continue;
    input.is_set = false;
    ++num_missing;
  }
}

Error Method::State::explain_missing() const {
  ErrorList errors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].needs_value || inputs[i].is_set) continue;
    errors.add(
        Error::InvalidState, "input %zu (%s) is not set%s", i, meta.inputs[i].describe().c_str(),
        inputs[i].is_overwritten ? "; its memory is reused, so set it before each execute()" : "");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].needs_data || outputs[i].is_set) continue;
    errors.add(Error::InvalidState, "output %zu (%s) has no memory; call set_output_data()", i,
               meta.outputs[i].describe().c_str());
  }
  return errors.to_error("method " + meta.name);
}

void Method::State::mark_set(bool* is_set) {
  if (!*is_set) --num_missing;
  *is_set = true;
}

}  // namespace pteron
