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

// Outputs above this size are copied without the GIL.
constexpr size_t kLargeCopyNbytes = 1 << 18;
// From this size on, copying an output takes longer than replacing its memory.
constexpr size_t kLargeOutputNbytes = 1 << 14;
// Of memory on a device that delegates write.
constexpr size_t kDeviceAlignment = 16;
constexpr double kNoTimeout = std::numeric_limits<double>::infinity();

// Whether a tensor is dense in `dim_order`, outermost dimension first.
bool has_layout(const ImportedTensor& tensor, const std::vector<uint8_t>& dim_order) {
  int64_t expected = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    const size_t d = dim_order[i];
    if (tensor.sizes[d] == 0) return true;
    if (tensor.sizes[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.sizes[d];
  }
  return true;
}

// To its elements, and to `nbytes`.
bool is_aligned(const ImportedTensor& tensor, size_t nbytes = 1) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  return address % element_size(tensor.dtype) == 0 && address % nbytes == 0;
}

View view_of(const ImportedTensor& tensor) {
  View view;
  view.data = tensor.data;
  view.dtype = tensor.dtype;
  view.dim = tensor.dim;
  view.sizes = tensor.sizes;
  view.strides = tensor.strides;
  return view;
}

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
    if (output.given && has_layout(into, method_->meta().outputs[i].dim_order) &&
        is_aligned(into, into.device.type == DeviceType::CPU ? 1 : kDeviceAlignment)) {
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

void PyMethod::check_count(size_t found) const {
  if (found == inputs_.size()) return;
  std::string expected;
  for (const ValueMeta& input : method_->meta().inputs) {
    expected += (expected.empty() ? "" : ", ") + input.describe();
  }
  throw_error(make_error(Error::InvalidArgument, "method \"%s\" takes %zu inputs (%s), found %zu",
                         method_->name().c_str(), inputs_.size(), expected.c_str(), found));
}

void PyMethod::import_inputs(PyObject* inputs) {
  if (!PyList_Check(inputs) && !PyTuple_Check(inputs) &&
      PyObject_HasAttrString(inputs, "__dlpack__")) {
    throw_error(make_error(Error::InvalidType,
                           "inputs of method \"%s\": found a %s, expected a list of them; try "
                           "execute([x]), or call the method as the module was called",
                           method_->name().c_str(), Py_TYPE(inputs)->tp_name));
  }
  const Object sequence = checked(with_gil_back([inputs] {
    return PySequence_Fast(inputs, "inputs must be a sequence of tensors and scalars");
  }));
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.get()));
  check_count(count);
  for (size_t i = 0; i < count; ++i) {
    // Conversion may run Python code, which may shorten the list.
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.get())) != count) check_count(0);
    const Object item =
        borrow(PySequence_Fast_GET_ITEM(sequence.get(), static_cast<Py_ssize_t>(i)));
    import_value(i, item.get());
  }
}

void PyMethod::import_value(size_t index, PyObject* value) {
  if (value == Py_None || PyBool_Check(value) || PyLong_Check(value) || PyFloat_Check(value) ||
      PyUnicode_Check(value)) {
    values_[index] = import_scalar(index, value);
    return;
  }
  if (!inputs_[index].tensor.import(value)) {
    throw_error(
        make_error(Error::InvalidType,
                   "input %zu of method \"%s\": found a %s, expected %s; a tensor may be one of "
                   "torch, numpy, or any with DLPack or the buffer protocol",
                   index, method_->name().c_str(), Py_TYPE(value)->tp_name,
                   method_->meta().inputs[index].describe().c_str()));
  }
  const ValueMeta& expected = method_->meta().inputs[index];
  if (expected.kind == ValueKind::Tensor) return set_tensor(index, value);
  values_[index] = scalar_of_tensor(inputs_[index].tensor, expected);
}

EValue PyMethod::import_scalar(size_t index, PyObject* value) {
  const ValueKind expected = method_->meta().inputs[index].kind;
  if (value == Py_None) return EValue();
  if (PyBool_Check(value)) return EValue(value == Py_True);
  if (PyFloat_Check(value)) return EValue(PyFloat_AS_DOUBLE(value));
  if (PyLong_Check(value)) {
    // As in Python, an int does where a float is expected.
    if (expected == ValueKind::Double) {
      const double number = PyLong_AsDouble(value);
      if (number != -1.0 || !PyErr_Occurred()) return EValue(number);
      PyErr_Clear();
      throw_error(make_error(Error::InvalidArgument,
                             "input %zu of method \"%s\": an int too large for a float", index,
                             method_->name().c_str()));
    }
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) {
      throw_error(make_error(Error::InvalidArgument,
                             "input %zu of method \"%s\": an int of more than 64 bits", index,
                             method_->name().c_str()));
    }
    return EValue(static_cast<int64_t>(number));
  }
  inputs_[index].scalar = borrow(value);
  return EValue(to_view(value));
}

// A 0-d tensor is converted to a scalar. The method rejects anything else.
EValue PyMethod::scalar_of_tensor(const ImportedTensor& tensor, const ValueMeta& expected) const {
  if (tensor.dim == 0 && tensor.device.type == DeviceType::CPU && !is_complex(tensor.dtype)) {
    const bool fits = expected.kind == ValueKind::Bool     ? tensor.dtype == ScalarType::Bool
                      : expected.kind == ValueKind::Double ? tensor.dtype != ScalarType::Bool
                      : expected.kind == ValueKind::Int
                          ? tensor.dtype != ScalarType::Bool && !is_floating(tensor.dtype)
                          : false;
    if (fits && expected.kind == ValueKind::Bool)
      return EValue(load_one<int64_t>(tensor.dtype, tensor.data) != 0);
    if (fits && expected.kind == ValueKind::Double)
      return EValue(load_one<double>(tensor.dtype, tensor.data));
    if (fits) return EValue(load_one<int64_t>(tensor.dtype, tensor.data));
  }
  return EValue(value_or_throw(
      Tensor::make(tensor.dtype, {tensor.sizes.data(), tensor.dim}, tensor.data, tensor.device)));
}

// Uses the caller's memory if its strides match the method's, otherwise a copy.
void PyMethod::set_tensor(size_t index, PyObject* value) {
  Input& input = inputs_[index];
  const ImportedTensor& tensor = input.tensor;
  const ValueMeta& expected = method_->meta().inputs[index];
  const Span<const int64_t> sizes(tensor.sizes.data(), tensor.dim);
  EValue& slot = values_[index];
  if (tensor.dim != expected.dim_order.size() || tensor.dtype != expected.dtype) {
    // The method rejects it with an error before accessing the memory.
    slot = EValue(value_or_throw(Tensor::make(tensor.dtype, sizes, tensor.data, tensor.device)));
    return;
  }
  // Usually unchanged since the last call.
  const auto is_as_before = [&](const Tensor& last) {
    return last.dtype() == tensor.dtype && last.device() == tensor.device &&
           last.dim() == tensor.dim && std::equal(sizes.begin(), sizes.end(), last.sizes().begin());
  };
  if (!slot.is_tensor() || !is_as_before(slot.tensor())) {
    const Span<const uint8_t> dim_order(expected.dim_order.data(), expected.dim_order.size());
    slot = EValue(value_or_throw(Tensor::make(tensor.dtype, sizes, dim_order, nullptr,
                                              tensor.device, ShapeDynamism::Static)));
  }
  Tensor& result = slot.tensor();
  const size_t nbytes = result.nbytes();
  const bool is_lazy = tensor.is_lazy && nbytes > 0;
  const bool fits = has_layout(tensor, expected.dim_order) && is_aligned(tensor);
  if (__builtin_expect(fits && !is_lazy, 1)) {
    result.set_data(tensor.data, nbytes);
    if (tensor.is_read_only) result.set_constant_data(tensor.data, nbytes);
    return;
  }
  if (nbytes > expected.nbytes) {  // rejected: above the upper bound
    result.set_data(tensor.data, nbytes);
    return;
  }
  const bool on_cpu = tensor.device.type == DeviceType::CPU;
  if (is_lazy || (!on_cpu && tensor.type.is_torch && tensor.type.api)) {
    result.set_data(copy_with_torch(input, value, result), nbytes);
    return;
  }
  if (!on_cpu) {
    throw_error(make_error(Error::InvalidArgument,
                           "input %zu of method \"%s\" is on a device with other strides than %s; "
                           "make it contiguous",
                           index, method_->name().c_str(), expected.describe().c_str()));
  }
  if (nbytes > input.staging_nbytes) {
    input.staging.reset(new std::byte[expected.nbytes]);
    input.staging_nbytes = expected.nbytes;
  }
  result.set_data(input.staging.get(), input.staging_nbytes);
  throw_if_error(copy_elements(view_of(tensor), pteron::view_of(result)));
  input.is_copied = true;
}

void* PyMethod::copy_with_torch(Input& input, PyObject* value, const Tensor& result) {
  input.given = call_method(value, "detach", "()");
  input.copy = call_method(input.given.get(), "new_empty_strided", "(NN)",
                           to_list(result.sizes()).release(), to_list(result.strides()).release());
  call_method(input.copy.get(), "copy_", "(O)", input.given.get());
  input.is_copied = true;
  ImportedTensor copy;
  if (!copy.import(input.copy.get())) throw_error(Error(Error::Internal, "no tensor"));
  return copy.data;
}

void PyMethod::check_written_inputs() const {
  const std::vector<ValueMeta>& metas = method_->meta().inputs;
  const auto refuse = [&](size_t index, const std::string& why) {
    const std::string& name = metas[index].name;
    throw_error(Error(Error::InvalidArgument,
                      "method \"" + method_->name() + "\" changes input " + std::to_string(index) +
                          (name.empty() ? "" : " (" + name + ")") + " in place, " + why));
  };
  for (const size_t i : written_) {
    const ImportedTensor& tensor = inputs_[i].tensor;
    if (!tensor.imported() || !tensor.data) continue;
    if (tensor.is_read_only) refuse(i, "and it is read-only; pass a writable copy");
    if (!has_layout(tensor, metas[i].dim_order) && overlaps_itself(view_of(tensor))) {
      refuse(i, "and several of its elements are one place in memory, as after expand(); clone it");
    }
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const ImportedTensor& other = inputs_[k].tensor;
      if (k != i && other.imported() && other.device == tensor.device &&
          share_elements(view_of(tensor), view_of(other))) {
        refuse(i, "and it shares memory with input " + std::to_string(k) +
                      "; pass a copy of one of them");
      }
    }
  }
}

void PyMethod::write_copies_back() {
  for (const size_t i : written_) {
    const Input& input = inputs_[i];
    if (!input.is_copied) continue;
    if (input.copy) {
      call_method(input.given.get(), "copy_", "(O)", input.copy.get());
    } else {
      throw_if_error(copy_elements(pteron::view_of(values_[i].tensor()), view_of(input.tensor)));
    }
  }
}

void PyMethod::import_outputs(PyObject* out) {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(out));
  if (count != outputs_.size()) {
    throw_error(make_error(Error::InvalidArgument,
                           "method \"%s\" has %zu outputs; found %zu in `out`, expected a tensor "
                           "or None for each",
                           method_->name().c_str(), outputs_.size(), count));
  }
  for (size_t i = 0; i < count; ++i) {
    const Object item = borrow(PyList_GET_ITEM(out, static_cast<Py_ssize_t>(i)));
    if (item.get() == Py_None) continue;
    if (!outputs_[i].into.import(item.get())) {
      throw_error(make_error(Error::InvalidType,
                             "out %zu of method \"%s\": found a %s, expected a tensor or None", i,
                             method_->name().c_str(), Py_TYPE(item.get())->tp_name));
    }
    outputs_[i].given = borrow(item.get());
  }
}

void PyMethod::check_into(size_t index) const {
  const ImportedTensor& into = outputs_[index].into;
  const ValueMeta& meta = method_->meta().outputs[index];
  const auto refuse = [&](const std::string& why) {
    throw_error(Error(Error::InvalidArgument, "out " + std::to_string(index) + " of method \"" +
                                                  method_->name() + "\" " + why));
  };
  bool fits = meta.kind == ValueKind::Tensor && into.dtype == meta.dtype &&
              into.device == meta.device && into.dim == meta.sizes.size();
  for (size_t d = 0; fits && d < into.dim; ++d) {
    fits = meta.dynamism == ShapeDynamism::Static ? into.sizes[d] == meta.sizes[d]
                                                  : into.sizes[d] <= meta.sizes[d];
  }
  if (!fits) {
    const Tensor found = value_or_throw(
        Tensor::make(into.dtype, {into.sizes.data(), into.dim}, into.data, into.device));
    refuse("is " + found.describe() + " on " + describe(into.device) + ", expected " +
           meta.describe() + " on " + describe(meta.device));
  }
  if (into.is_read_only) refuse("is read-only");
  if (into.is_lazy)
    refuse("has torch's negative bit or conjugate bit, or no memory; pass a plain tensor");
  if (overlaps_itself(view_of(into))) {
    refuse("has several elements in one place in memory, as after expand()");
  }
  const auto overlaps = [&](const ImportedTensor& other) {
    return other.imported() && other.device == into.device &&
           share_elements(view_of(into), view_of(other));
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (overlaps(inputs_[i].tensor)) refuse("shares memory with input " + std::to_string(i));
  }
  for (size_t i = 0; i < index; ++i) {
    if (overlaps(outputs_[i].into)) refuse("shares memory with out " + std::to_string(i));
  }
}

void PyMethod::copy_into(size_t index, const TensorStyle& style) {
  Output& output = outputs_[index];
  const ImportedTensor& into = output.into;
  const Tensor result = method_->get_output(index).tensor();
  if (!std::equal(result.sizes().begin(), result.sizes().end(), into.sizes.begin())) {
    throw_error(make_error(Error::InvalidArgument,
                           "out %zu of method \"%s\" has other sizes than what it computed, %s; "
                           "the method has run",
                           index, method_->name().c_str(), result.describe().c_str()));
  }
  if (result.nbytes() == 0) return;
  if (into.device.type == DeviceType::CPU) {
    const WithoutGil without_gil;
    throw_if_error(copy_elements(pteron::view_of(result), view_of(into)));
  } else if (has_layout(into, method_->meta().outputs[index].dim_order)) {
    throw_if_error(
        find_device_allocator(into.device.type)
            ->copy(into.data, into.device, result.data(), into.device, result.nbytes(), Wait::No));
  } else if (into.type.is_torch) {
    const Object detached = call_method(output.given.get(), "detach", "()");
    call_method(detached.get(), "copy_", "(N)", this->output(index, style).release());
  } else {
    throw_error(make_error(Error::InvalidArgument,
                           "out %zu of method \"%s\" is on a device with other strides than %s",
                           index, method_->name().c_str(), result.describe().c_str()));
  }
}

void PyMethod::release_values() {
  for (Output& output : outputs_) {
    if (__builtin_expect(!output.given, 1)) continue;
    output.into.clear();
    output.given.reset();
    output.is_bound = false;
    output.direct.reset();
  }
  for (Input& input : inputs_) {
    input.tensor.clear();
    input.scalar.reset();
    if (__builtin_expect(!input.is_copied, 1)) continue;
    input.given.reset();
    input.copy.reset();
    input.is_copied = false;
  }
}

// The style of the first input tensor; without one, that of the process.
TensorStyle PyMethod::output_style() const {
  for (const Input& input : inputs_) {
    if (input.tensor.imported()) return {input.tensor.type.api, input.tensor.type.is_torch};
  }
  return style_of_process();
}

Object PyMethod::output(size_t index, const TensorStyle& style) {
  Output& output = outputs_[index];
  const EValue& value = method_->get_output(index);
  if (output.direct) return to_python(std::move(output.direct), style);
  return export_value(value, style);
}

Object PyMethod::export_value(const EValue& value, const TensorStyle& style) {
  const auto values = [&](Span<EValue* const> items) {
    return list_of(items.size(),
                   [&](size_t i) { return items[i] ? export_value(*items[i], style) : none(); });
  };
  switch (value.value_kind()) {
    case ValueKind::None:
      return none();
    case ValueKind::Int:
      return to_object(value.to_int());
    case ValueKind::Double:
      return to_object(value.to_double());
    case ValueKind::Bool:
      return to_object(value.to_bool());
    case ValueKind::String:
      return to_object(value.to_string());
    case ValueKind::IntList:
      return values(value.to_int_list().items);
    case ValueKind::TensorList:
      return values(value.to_tensor_list().items);
    case ValueKind::OptionalTensorList:
      return values(value.to_optional_tensor_list().items);
    case ValueKind::DoubleList:
      return to_list(value.to_double_list().items);
    case ValueKind::BoolList:
      return to_list(value.to_bool_list().items);
    case ValueKind::Tensor:
      break;
  }
  const Tensor& tensor = value.tensor();
  OwnedTensorPtr copy = value_or_throw(OwnedTensor::allocate(tensor));
  if (tensor.device().type != DeviceType::CPU) {
    throw_if_error(copy->copy_from(tensor, Wait::No));
  } else if (tensor.nbytes() < kLargeCopyNbytes) {
    throw_if_error(copy->copy_from(tensor));
  } else {
    Error error;
    {
      const WithoutGil without_gil;
      error = copy->copy_from(tensor);
    }
    throw_if_error(error);
  }
  return to_python(std::move(copy), style);
}

}  // namespace pteron::python
