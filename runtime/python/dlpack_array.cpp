#include "pteron/runtime/python/dlpack_array.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/python/dlpack.h"
#include "pteron/runtime/python/python_error.h"
#include "pteron/runtime/python/python_type.h"

namespace pteron::python {

DlpackArray::DlpackArray(OwnedTensorPtr tensor) : tensor_(std::move(tensor)) {
  if (tensor_->device().type == DeviceType::CPU) return;
  written_ =
      value_or_throw(find_device_allocator(tensor_->device().type)->make_event(tensor_->device()));
  if (written_) throw_if_error(written_->record());
}

PyTypeObject* DlpackArray::type() {
  static PyMethodDef methods[] = {
      {"tobytes", method_of<&DlpackArray::tobytes>, METH_NOARGS,
       "A copy of the bytes, in memory order."},
      {"__dlpack__",
       reinterpret_cast<PyCFunction>(
           static_cast<PyCFunctionWithKeywords>(method_of<&DlpackArray::dlpack>)),
       METH_VARARGS | METH_KEYWORDS, nullptr},
      {"__dlpack_device__", method_of<&DlpackArray::device>, METH_NOARGS, nullptr},
      {}};
  static PyGetSetDef properties[] = {
      {"shape", method_of<&DlpackArray::shape>, nullptr, nullptr, nullptr},
      {"dtype", method_of<&DlpackArray::dtype>, nullptr, "The name, such as ``bfloat16``.",
       nullptr},
      {}};
  static PyTypeObject* const type =
      make_type<DlpackArray>("pteron.runtime.python._native.DlpackArray",
                             "An output that neither torch nor numpy can hold in this process.\n\n"
                             "Hand it to any library that takes DLPack.",
                             methods, properties);
  return type;
}

Object DlpackArray::make(OwnedTensorPtr tensor) {
  return make_object(type(), std::make_unique<DlpackArray>(std::move(tensor)));
}

Object DlpackArray::shape() const {
  const dlpack::Tensor& tensor = tensor_->tensor();
  Object shape = checked(PyTuple_New(tensor.ndim));
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    PyTuple_SET_ITEM(shape.get(), d, to_object(tensor.shape[d]).release());
  }
  return shape;
}

Object DlpackArray::dtype() const { return to_object(name_of(tensor_->dtype())); }

Object DlpackArray::device() const {
  const dlpack::Device device = tensor_->tensor().device;
  return checked(Py_BuildValue("(ii)", device.type, device.index));
}

Object DlpackArray::tobytes() const {
  if (tensor_->device().type != DeviceType::CPU) {
    throw_error(Error(Error::NotSupported, "tobytes() of an array that is not on the CPU"));
  }
  return checked(PyBytes_FromStringAndSize(static_cast<const char*>(tensor_->data()),
                                           static_cast<Py_ssize_t>(tensor_->nbytes())));
}

Object DlpackArray::dlpack(PyObject* arguments, PyObject* keywords) const {
  static const char* const names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject* stream = Py_None;
  PyObject* version = Py_None;
  PyObject* ignored = nullptr;  // the array stays where it is, and is shared
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__",
                                   const_cast<char**>(names), &stream, &version, &ignored,
                                   &ignored)) {
    throw PythonError();
  }
  unsigned major = 0;
  unsigned minor = 0;
  if (version != Py_None && !PyArg_ParseTuple(version, "II:max_version", &major, &minor)) {
    throw PythonError();
  }
  if (written_) make_consumer_wait(stream);
  return major >= dlpack::kMajorVersion
             ? share<dlpack::ManagedTensorVersioned>(dlpack::kVersionedCapsule)
             : share<dlpack::ManagedTensor>(dlpack::kCapsule);
}

// DLPack's stream values: None and 1 are the default stream, 2 the per-thread default stream (whose
// handle has this value), -1 means no synchronization, others are handles.
void DlpackArray::make_consumer_wait(PyObject* asked) const {
  const long long stream = asked == Py_None ? 1 : PyLong_AsLongLong(asked);
  if (PyErr_Occurred()) throw PythonError();
  if (stream == -1) return;
  throw_if_error(written_->make_wait(stream == 1 ? nullptr : reinterpret_cast<void*>(stream)));
}

namespace {

template <typename Managed>
struct Shared {
  Managed managed{};
  std::shared_ptr<OwnedTensor> owner;
};

// A consumer renames the capsule and takes ownership; otherwise the capsule frees the tensor.
template <typename Managed>
void free_unused(PyObject* capsule) {
  for (const char* unused : {dlpack::kCapsule, dlpack::kVersionedCapsule}) {
    if (!PyCapsule_IsValid(capsule, unused)) continue;
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, unused));
    managed->deleter(managed);
    return;
  }
}

}  // namespace

template <typename Managed>
Object DlpackArray::share(const char* name) const {
  auto shared = std::make_unique<Shared<Managed>>();
  shared->owner = tensor_;
  shared->managed.tensor = tensor_->tensor();
  shared->managed.context = shared.get();
  shared->managed.deleter = [](Managed* self) {
    delete static_cast<Shared<Managed>*>(self->context);
  };
  if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
    shared->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  }
  Object capsule = checked(PyCapsule_New(&shared->managed, name, free_unused<Managed>));
  shared.release();
  return capsule;
}

}  // namespace pteron::python
