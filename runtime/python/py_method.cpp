#include "pteron/runtime/python/py_method.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "pteron/runtime/core/element.h"
#include "pteron/runtime/kernel/view.h"
#include "pteron/runtime/platform/fork_mutex.h"
#include "pteron/runtime/python/export_meta.h"
#include "pteron/runtime/python/gil.h"
#include "pteron/runtime/python/python_error.h"
#include "pteron/runtime/python/python_type.h"

namespace pteron::python {
namespace {

// From this size on, copying an output takes longer than replacing its memory.
constexpr size_t kLargeOutputNbytes = 1 << 14;
// Of memory on a device that delegates write.
constexpr size_t kDeviceAlignment = 16;
constexpr double kNoTimeout = std::numeric_limits<double>::infinity();

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

// Whether Python's signal handlers run on this thread.
bool runs_signal_handlers() {
  static thread_local uint32_t generation = 0;
  static thread_local int answer = -1;
  if (__builtin_expect(answer < 0 || generation != fork_generation(), 0)) {
    generation = fork_generation();
#if defined(__APPLE__)
    answer = pthread_main_np();
#else
    answer = ::syscall(SYS_gettid) == ::getpid();
#endif
  }
  return answer != 0;
}

// Runs pending signal handlers. If one raises, the exception is set.
Error check_signals(void*) {
  const WithGil with_gil;
  return PyErr_CheckSignals() == 0 ? Error(Error::Ok) : Error(Error::Cancelled);
}

void wait_for(std::timed_mutex& mutex, double seconds) {
  constexpr double kLook = 0.05;
  constexpr double kLongest = 1e6;
  const Clock::time_point start = Clock::now();
  for (;;) {
    const double left = std::min(seconds - Seconds(Clock::now() - start).count(), kLongest);
    const double wait = runs_signal_handlers() ? std::min(left, kLook) : left;
    bool is_locked;
    {
      const WithoutGil without_gil;
      is_locked = mutex.try_lock_for(Seconds(std::max(wait, 0.0)));
    }
    if (is_locked) return;
    if (PyErr_CheckSignals() != 0) throw PythonError();
    if (left <= wait && seconds < kLongest) {
      throw_error(make_error(Error::TimedOut,
                             "another thread ran the method (or another of its session) for all of "
                             "the timeout of this call, %g seconds",
                             seconds));
    }
  }
}

}  // namespace

PySession::Guard::Guard(PySession& session, double seconds) : session_(session) {
  const std::thread::id self = std::this_thread::get_id();
  if (session.owner_.load(std::memory_order_relaxed) == self) {
    throw_error(Error(Error::InvalidState,
                      "the conversion of an input called the method (or its session) again"));
  }
  if (!session.mutex_.try_lock()) {
    if (session.generation_ != fork_generation()) {
      throw_error(Error(Error::InvalidState,
                        "the method (or another of its session) was running on another thread when "
                        "this process was forked; load it again here"));
    }
    wait_for(session.mutex_, seconds);
  }
  session.generation_ = fork_generation();
  session.owner_.store(self, std::memory_order_relaxed);
}

PySession::Guard::~Guard() {
  session_.owner_.store(std::thread::id(), std::memory_order_relaxed);
  session_.mutex_.unlock();
}

void PySession::reset() {
  const Guard guard(*this);
  throw_if_error(order_.finish());
  throw_if_error(session_->reset());
}

Object PySession::buffer(const std::string& name) {
  const Guard guard(*this);
  throw_if_error(order_.finish());
  const Tensor tensor = value_or_throw(session_->buffer(name));
  OwnedTensorPtr copy = value_or_throw(OwnedTensor::allocate(tensor));
  throw_if_error(copy->copy_from(tensor));
  return to_python(std::move(copy), style_of_process());
}

void PySession::set_buffer(const std::string& name, PyObject* value) {
  ImportedTensor given;
  if (!given.import(value) || given.is_lazy) {
    throw_error(make_error(Error::InvalidType, "mutable buffer %s: found a %s, expected a tensor",
                           name.c_str(), Py_TYPE(value)->tp_name));
  }
  Tensor tensor = value_or_throw(
      Tensor::make(given.dtype, {given.sizes.data(), given.dim}, given.data, given.device));
  for (size_t d = 0; d < given.dim; ++d) {
    if (given.sizes[d] == 1 || given.strides[d] == tensor.strides()[d]) continue;
    throw_error(make_error(Error::InvalidArgument,
                           "mutable buffer %s: the strides of what it is to hold are not those of "
                           "a contiguous tensor; make it contiguous",
                           name.c_str()));
  }
  const Guard guard(*this);
  throw_if_error(order_.finish());
  throw_if_error(session_->set_buffer(name, tensor));
}

std::shared_ptr<PySession> PySession::copy() {
  const Guard guard(*this);
  throw_if_error(order_.finish());
  return std::make_shared<PySession>(value_or_throw(session_->copy()));
}

PyMethod::PyMethod(std::unique_ptr<Method> method, std::shared_ptr<PySession> session)
    : method_(std::move(method)),
      session_(std::move(session)),
      inputs_(method_->inputs_size()),
      values_(method_->inputs_size()),
      outputs_(method_->outputs_size()) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (method_->meta().inputs[i].written) written_.push_back(i);
  }
  prepare_outputs();
  collect_devices();
}

PyMethod::~PyMethod() {
  // Destroying delegates may take long and needs no GIL.
  const WithoutGil without_gil;
  method_.reset();
}

PyTypeObject* PyMethod::type() {
  static PyMethodDef methods[] = {
      {"execute", method_of<&PyMethod::execute>, METH_O, "Flat inputs to flat outputs."},
      {"execute_with", method_of<&PyMethod::execute_with>, METH_O, "Of (inputs, timeout, out)."},
      {"cancel", method_of<&PyMethod::cancel>, METH_NOARGS, nullptr},
      {"profile", method_of<&PyMethod::profile>, METH_O, "Of (inputs, list for the JSON)."},
      {"prepare", method_of<&PyMethod::prepare>, METH_O, "For flat inputs."},
      {"reset_state", method_of<&PyMethod::reset_state>, METH_NOARGS, nullptr},
      {"meta", method_of<&PyMethod::meta>, METH_NOARGS, "As a dict."},
      {}};
  static PyTypeObject* const type =
      make_type<PyMethod>("pteron.runtime.python._native.Method", "A loaded method.", methods);
  return type;
}

// Unplanned outputs need memory: a static one is written directly into the returned tensor, a
// dynamic one into memory of its upper bound, of which a part is returned. A large planned static
// output is also written directly, if the plan allows it.
void PyMethod::prepare_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const ValueMeta& meta = method_->meta().outputs[i];
    if (meta.kind != ValueKind::Tensor || meta.constant || meta.nbytes == 0) continue;
    const bool is_static = meta.dynamism == ShapeDynamism::Static;
    const auto same = [&](size_t j) { return &method_->get_output(j) == &method_->get_output(i); };
    bool repeated = false;  // one value may be several outputs: they share memory
    bool first = true;
    for (size_t j = 0; j < outputs_.size(); ++j) {
      if (j == i || !same(j)) continue;
      repeated = true;
      first = first && j > i;
    }
    if (!first) continue;
    if (meta.planned) {
      const bool is_large = meta.nbytes >= kLargeOutputNbytes;
      if (is_large && is_static && meta.device.type == DeviceType::CPU && !repeated &&
          takes_memory(i)) {
        outputs_[i].mode = OutputMode::Direct;
      }
      continue;
    }
    const Error error = give_memory(i);
    if (error == Error::InvalidState) continue;  // aliases another value
    throw_if_error(error);
    if (is_static && !repeated) {
      outputs_[i].mode = OutputMode::Direct;
      outputs_[i].memory.reset();
      outputs_[i].on_device.reset();
    }
  }
}

// Whether the memory of a planned output can be replaced.
bool PyMethod::takes_memory(size_t index) {
  const Tensor& planned = method_->get_output(index).tensor();
  return method_->set_output_data(index, planned.data(), planned.nbytes()).ok();
}

// Memory of the upper bound, for an unplanned output.
Error PyMethod::give_memory(size_t index) {
  const ValueMeta& meta = method_->meta().outputs[index];
  Output& output = outputs_[index];
  if (meta.device.type == DeviceType::CPU) {
    output.memory.reset(new std::byte[meta.nbytes]);
    return method_->set_output_data(index, output.memory.get(), meta.nbytes);
  }
  PTERON_ASSIGN_OR_RETURN(output.on_device,
                          OwnedTensor::allocate(method_->get_output(index).tensor()));
  return method_->set_output_data(index, output.on_device->data(), output.on_device->nbytes());
}

void PyMethod::collect_devices() {
  for (const auto* values : {&method_->meta().inputs, &method_->meta().outputs}) {
    for (const ValueMeta& meta : *values) {
      const Device device = meta.device;
      if (meta.kind != ValueKind::Tensor || device.type == DeviceType::CPU) continue;
      if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) {
        devices_.push_back(device);
      }
    }
  }
}

// The exchange API that provides the caller's stream; may be null.
const dlpack::ExchangeApi* PyMethod::api_of_caller() const {
  for (const Input& input : inputs_) {
    if (input.tensor.imported() && input.tensor.type.api) return input.tensor.type.api;
  }
  return style_of_process().api;
}

// Whether a tensor came through `__dlpack__`, which synchronizes it with the default stream.
bool PyMethod::has_foreign_tensor() const {
  const auto is_foreign = [](const ImportedTensor& tensor) {
    return tensor.imported() && !tensor.type.api && tensor.device.type != DeviceType::CPU;
  };
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const Input& input) { return is_foreign(input.tensor); }) ||
         std::any_of(outputs_.begin(), outputs_.end(),
                     [&](const Output& output) { return is_foreign(output.into); });
}

Object PyMethod::execute(PyObject* inputs) { return run(inputs, Purpose::Execute, kNoTimeout); }

Object PyMethod::execute_with(PyObject* arguments) {
  PyObject* const number = PyTuple_GET_ITEM(arguments, 1);
  const double timeout = number == Py_None ? kNoTimeout : PyFloat_AsDouble(number);
  if (timeout == -1.0 && PyErr_Occurred()) throw PythonError();
  if (std::isnan(timeout)) throw_error(Error(Error::InvalidArgument, "the timeout is no number"));
  PyObject* const out = PyTuple_GET_ITEM(arguments, 2);
  return run(PyTuple_GET_ITEM(arguments, 0), Purpose::Execute, timeout,
             out == Py_None ? nullptr : out);
}

Object PyMethod::prepare(PyObject* inputs) { return run(inputs, Purpose::Prepare, kNoTimeout); }

Object PyMethod::cancel() { return to_object(method_->cancel()); }

Object PyMethod::profile(PyObject* inputs_and_list) {
  PyObject* inputs = nullptr;
  PyObject* list = nullptr;
  if (!PyArg_ParseTuple(inputs_and_list, "OO!", &inputs, &PyList_Type, &list)) throw PythonError();
  Profile profile;
  const auto append = [&] {
    const Object text = to_object(profile.to_json());
    if (PyList_Append(list, text.get()) != 0) throw PythonError();
  };
  try {
    Object outputs = run(inputs, Purpose::Execute, kNoTimeout, nullptr, &profile);
    append();
    return outputs;
  } catch (...) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    append();
    PyErr_Restore(type, value, traceback);
    throw;
  }
}

Object PyMethod::run(PyObject* inputs, Purpose purpose, double timeout, PyObject* out,
                     Profile* profile) {
  const bool has_timeout = timeout != kNoTimeout;
  const Clock::time_point start = has_timeout ? Clock::now() : Clock::time_point();
  const PySession::Guard guard(*session_, timeout);
  struct Release {
    PyMethod* method;
    ~Release() { method->release_values(); }
  } release{this};
  import_inputs(inputs);
  if (out) import_outputs(out);
  CallerStreams streams(devices_, devices_.empty() ? nullptr : api_of_caller(), session_->order());
  if (devices_.empty()) {
    throw_if_error(session_->order().finish());
  } else {
    throw_if_error(streams.begin(has_foreign_tensor()));
  }
  throw_if_error(method_->set_inputs({values_.data(), values_.size()}));
  if (!written_.empty()) check_written_inputs();  // whose sizes are known to be valid
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    if (output.given) check_into(i);
    if (output.mode != OutputMode::Direct) continue;
    const ImportedTensor& into = output.into;
    if (output.given && into.has_layout(method_->meta().outputs[i].dim_order) &&
        into.is_aligned(into.device.type == DeviceType::CPU ? 1 : kDeviceAlignment)) {
      throw_if_error(
          method_->set_output_data(i, into.data, method_->get_output(i).tensor().nbytes()));
      output.is_bound = true;
      continue;
    }
    output.direct = value_or_throw(OwnedTensor::allocate(method_->get_output(i).tensor()));
    throw_if_error(method_->set_output_data(i, output.direct->data(), output.direct->nbytes()));
  }
  ExecuteOptions options;
  if (has_timeout) options.timeout = timeout - Seconds(Clock::now() - start).count();
  if (runs_signal_handlers()) options.poll = check_signals;
  struct Untrace {
    Method* method;
    ~Untrace() {
      if (method) (void)method->set_tracer(nullptr);
    }
  } untrace{profile ? method_.get() : nullptr};
  if (profile) throw_if_error(method_->set_tracer(profile));
  const Error error = [&] {
    const WithoutGil without_gil;
    return purpose == Purpose::Execute ? method_->execute(options) : method_->prepare(options);
  }();
  if (__builtin_expect(!error.ok(), 0) && PyErr_Occurred()) throw PythonError();
  throw_if_error(error);
  if (purpose == Purpose::Prepare) return none();
  if (!written_.empty()) write_copies_back();
  const TensorStyle style = output_style();
  Object results = list_of(outputs_.size(), [&](size_t i) {
    if (!outputs_[i].given) return output(i, style);
    if (!outputs_[i].is_bound) copy_into(i, style);
    return borrow(outputs_[i].given.get());
  });
  // Others' tensors do not make their consumer's stream wait.
  if (out && has_foreign_tensor()) throw_if_error(session_->order().finish());
  return results;
}

Object PyMethod::reset_state() {
  const PySession::Guard guard(*session_);
  throw_if_error(session_->order().finish());
  throw_if_error(method_->reset_state());
  return none();
}

Object PyMethod::meta() const { return export_meta(method_->meta()); }

}  // namespace pteron::python
