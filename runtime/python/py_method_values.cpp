// Values of a call: what the caller passes becomes inputs, and outputs become what it gets.
#include <cmath>
#include <string>
#include <utility>

#include "pteron/runtime/core/element.h"
#include "pteron/runtime/kernel/view.h"
#include "pteron/runtime/python/gil.h"
#include "pteron/runtime/python/py_method.h"
#include "pteron/runtime/python/python_error.h"

namespace pteron::python {
namespace {

// Outputs above this size are copied without the GIL.
constexpr size_t kLargeCopyNbytes = 1 << 18;

View view_of(const ImportedTensor& tensor) {
  View view;
  view.data = tensor.data;
  view.dtype = tensor.dtype;
  view.dim = tensor.dim;
  view.sizes = tensor.sizes;
  view.strides = tensor.strides;
  return view;
}

}  // namespace

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
  const bool fits = tensor.has_layout(expected.dim_order) && tensor.is_aligned();
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
    if (!tensor.has_layout(metas[i].dim_order) && overlaps_itself(view_of(tensor))) {
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
  } else if (into.has_layout(method_->meta().outputs[index].dim_order)) {
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
