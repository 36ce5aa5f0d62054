#include "pteron/runtime/python/import_tensor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pteron/runtime/python/python_error.h"

namespace pteron::python {
namespace {

// Throws if it is not in the table of dtypes.
ScalarType dtype_of(dlpack::DataType dtype) {
  if (dtype.lanes == 1) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  if (dtype.code == dlpack_code && dtype.bits == dlpack_bits) return ScalarType::name;
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  }
  throw_error(
      make_error(Error::InvalidType,
                 "a tensor of DLPack type code %d with %d bits and %d lanes has no dtype in a "
                 "program; convert it first",
                 dtype.code, dtype.bits, dtype.lanes));
}

// By the format character of Python's struct module; throws for unsupported ones.
ScalarType dtype_of(const Py_buffer& buffer) {
  const char* format = buffer.format ? buffer.format : "B";
  const char* const whole = format;
  const bool swapped = (*format == '>' || *format == '!') && buffer.itemsize > 1;
  // strchr also finds the terminating null.
  if (*format != '\0' && std::strchr("@=<>!", *format)) ++format;
  const bool is_complex = *format == 'Z';  // and then the format of a part
  if (is_complex) ++format;
  if (!swapped && buffer.itemsize <= 16 && format[0] != '\0' && format[1] == '\0') {
    uint8_t code = UINT8_MAX;
    if (std::strchr("bhilqn", *format)) code = 0;
    if (std::strchr("BHILQN", *format)) code = 1;
    if (std::strchr("efd", *format)) code = is_complex ? 5 : 2;
    if (*format == '?') code = 6;
    if (code != UINT8_MAX) {
      return dtype_of(dlpack::DataType{code, static_cast<uint8_t>(8 * buffer.itemsize), 1});
    }
  }
  throw_error(
      make_error(Error::InvalidType,
                 "an array with elements of format \"%s\" (%zd bytes each) has no dtype in a "
                 "program; convert it first",
                 whole, buffer.itemsize));
}

Device device_of(dlpack::Device device) {
  switch (device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return Device{};
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return Device{DeviceType::CUDA, static_cast<int8_t>(device.index)};
    default:
      break;
  }
  throw_error(make_error(
      Error::NotSupported,
      "a tensor is on DLPack device type %d, expected CPU or CUDA; move it first", device.type));
}

TensorType inspect(PyTypeObject* type) {
  TensorType result;
  auto* const object = reinterpret_cast<PyObject*>(type);
  const Object name = get_attribute(object, "__module__");
  if (name && PyUnicode_Check(name.get())) {
    const std::string_view module = to_view(name.get());
    result.is_torch = module == "torch" || module.rfind("torch.", 0) == 0;
  }
  result.is_neg = get_attribute(object, "is_neg").release();
  const Object capsule = get_attribute(object, dlpack::kExchangeApiAttribute);
  if (capsule && PyCapsule_IsValid(capsule.get(), dlpack::kExchangeApiCapsule)) {
    const auto* api = static_cast<const dlpack::ExchangeApi*>(
        PyCapsule_GetPointer(capsule.get(), dlpack::kExchangeApiCapsule));
    while (api && api->version.major > dlpack::kMajorVersion) api = api->previous;
    if (api && api->version.major == dlpack::kMajorVersion) result.api = api;
  }
  return result;
}

// Replaces the exception of a tensor that cannot be exported by a descriptive one.
[[noreturn]] void refuse_tensor(PyObject* object) {
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  const Object owners[] = {Object(kind), Object(value), Object(trace)};
  std::string text;
  for (const char* const name : {"layout", "dtype", "device"}) {
    const Object attribute = get_attribute(object, name);
    const Object words = attribute ? checked(PyObject_Str(attribute.get())) : nullptr;
    if (words) text += (text.empty() ? " (" : ", ") + std::string(to_view(words.get()));
  }
  if (!text.empty()) text += ")";
  const Object reason = value ? checked(PyObject_Str(value)) : nullptr;
  const std::string_view why = reason ? to_view(reason.get()) : "";
  throw_error(make_error(
      Error::InvalidType,
      "a %s%s has no memory that a program can read as a dense tensor: %s. Give a dense one with "
      "data, as .to_dense(), .dequantize() or .contiguous() make it; inside torch.vmap or "
      "torch.func, call the program outside of them",
      Py_TYPE(object)->tp_name, text.c_str(), std::string(why.substr(0, why.find('\n'))).c_str()));
}

}  // namespace

const TensorType& tensor_type_of(PyTypeObject* type) {
  static PyTypeObject* last_type = nullptr;
  static const TensorType* last = nullptr;
  if (type == last_type) return *last;
  static auto* const types = new std::unordered_map<PyTypeObject*, TensorType>;
  auto found = types->find(type);
  if (found == types->end()) {
    found = types->emplace(type, inspect(type)).first;
    Py_INCREF(type);  // keeps the type alive, so that its address is not reused
  }
  last_type = type;
  last = &found->second;
  return *last;
}

bool ImportedTensor::import(PyObject* object) {
  clear();
  type = tensor_type_of(Py_TYPE(object));
  if (type.api && type.api->borrowed_from_object) {
    dlpack::Tensor tensor;
    if (type.api->borrowed_from_object(object, &tensor) != 0) refuse_tensor(object);
    owner_ = borrow(object);
    set(tensor);
    if (type.is_neg) {
      const Object answer(with_gil_back([&] { return PyObject_CallOneArg(type.is_neg, object); }));
      if (!answer) refuse_tensor(object);
      is_lazy = answer.get() == Py_True;
      if (is_complex(dtype) && !is_lazy) {
        is_lazy = call_method(object, "is_conj", "()").get() == Py_True;
      }
    }
    if (__builtin_expect(!data, 0) && get_attribute(object, "_is_zerotensor")) {
      is_lazy = call_method(object, "_is_zerotensor", "()").get() == Py_True;
    }
    return true;
  }
  if (PyObject_CheckBuffer(object) && import_buffer(object)) return true;
  return import_custom_dtype(object) || import_dlpack(object);
}

bool ImportedTensor::import_buffer(PyObject* object) {
  // Strided, without suboffsets.
  if (with_gil_back([&] { return PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO); }) != 0) {
    PyErr_Clear();
    buffer_.obj = nullptr;
    return false;
  }
  if (buffer_.suboffsets && std::any_of(buffer_.suboffsets, buffer_.suboffsets + buffer_.ndim,
                                        [](Py_ssize_t offset) { return offset >= 0; })) {
    throw_error(make_error(Error::InvalidType, "a %s has suboffsets (indirect elements); copy it",
                           Py_TYPE(object)->tp_name));
  }
  dtype = dtype_of(buffer_);
  device = Device{};
  is_read_only = buffer_.readonly != 0;
  is_lazy = false;
  set_dim(buffer_.ndim);
  data = static_cast<std::byte*>(buffer_.buf);
  // Without a shape it is 1-d bytes; without strides (ctypes), or if empty, it is contiguous.
  if (dim > 0 && !buffer_.shape) set_dim(1);
  for (size_t d = 0; d < dim; ++d) {
    sizes[d] = buffer_.shape ? buffer_.shape[d] : buffer_.len / buffer_.itemsize;
  }
  if (!buffer_.strides || buffer_.len == 0) {
    set_contiguous_strides();
    return true;
  }
  for (size_t d = 0; d < dim; ++d) {
    if (buffer_.strides[d] % buffer_.itemsize != 0) {
      throw_error(
          make_error(Error::InvalidArgument,
                     "an array has a stride of %zd bytes between elements of %zd bytes; make "
                     "it contiguous",
                     buffer_.strides[d], buffer_.itemsize));
    }
    strides[d] = buffer_.strides[d] / buffer_.itemsize;
  }
  return true;
}

// NumPy arrays of a dtype that the buffer protocol cannot express (ml_dtypes.bfloat16): viewed as
// integers of the same size.
bool ImportedTensor::import_custom_dtype(PyObject* object) {
  const Object array_dtype = get_attribute(object, "dtype");
  if (!array_dtype || !get_attribute(object, "view")) return false;
  const Object name = get_attribute(array_dtype.get(), "name");
  if (!name || !PyUnicode_Check(name.get())) return false;
  const std::string_view found = to_view(name.get());
  const auto import_as = [&](ScalarType dtype_found, const char* integer) {
    if (!import_buffer(call_method(object, "view", "(s)", integer).get())) return false;
    if (element_size(dtype) != element_size(dtype_found)) {
      throw_error(make_error(Error::InvalidType, "a %s of %s views itself as %s, not as %s",
                             Py_TYPE(object)->tp_name, name_of(dtype_found), name_of(dtype),
                             integer));
    }
    dtype = dtype_found;
    return true;
  };
  for (const ScalarType candidate :
       {ScalarType::BFloat16, ScalarType::Float8_e5m2, ScalarType::Float8_e4m3fn}) {
    if (found == name_of(candidate)) {
      return import_as(candidate, element_size(candidate) == 2 ? "uint16" : "uint8");
    }
  }
  return false;
}

bool ImportedTensor::import_dlpack(PyObject* object) {
  const Object method = get_attribute(object, "__dlpack__");
  if (!method) return false;
  const Object no_arguments = checked(PyTuple_New(0));
  const Object version = checked(
      Py_BuildValue("{s:(II)}", "max_version", dlpack::kMajorVersion, dlpack::kMinorVersion));
  owner_ = try_call(method, no_arguments, version);
  if (!owner_ && PyErr_ExceptionMatches(PyExc_TypeError)) {  // older than DLPack 1.0
    PyErr_Clear();
    owner_ = try_call(method, no_arguments);
  }
  if (!owner_ && PyErr_ExceptionMatches(PyExc_BufferError)) refuse_tensor(object);
  if (!owner_) throw PythonError();
  // The capsule is not renamed: it keeps ownership and frees the tensor.
  PyObject* const capsule = owner_.get();
  if (PyCapsule_IsValid(capsule, dlpack::kVersionedCapsule)) {
    const auto* managed = static_cast<const dlpack::ManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule, dlpack::kVersionedCapsule));
    if (managed->version.major != dlpack::kMajorVersion) {
      throw_error(make_error(Error::NotSupported, "a tensor comes with DLPack %u.%u, expected 1.x",
                             managed->version.major, managed->version.minor));
    }
    set(managed->tensor);
    is_read_only = (managed->flags & dlpack::kReadOnly) != 0;
    return true;
  }
  if (PyCapsule_IsValid(capsule, dlpack::kCapsule)) {
    set(static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kCapsule))
            ->tensor);
    return true;
  }
  throw_error(make_error(Error::InvalidArgument,
                         "the __dlpack__ of a %s returned no DLPack capsule",
                         Py_TYPE(object)->tp_name));
}

void ImportedTensor::set(const dlpack::Tensor& tensor) {
  dtype = dtype_of(tensor.dtype);
  device = device_of(tensor.device);
  is_read_only = false;
  is_lazy = false;
  set_dim(tensor.ndim);
  data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  std::copy(tensor.shape, tensor.shape + dim, sizes.begin());
  if (tensor.strides) {
    std::copy(tensor.strides, tensor.strides + dim, strides.begin());
    return;
  }
  set_contiguous_strides();
}

void ImportedTensor::set_contiguous_strides() {
  uint64_t stride = 1;  // which may overflow for empty tensors
  for (size_t d = dim; d-- > 0; stride *= static_cast<uint64_t>(std::max<int64_t>(sizes[d], 1))) {
    strides[d] = static_cast<int64_t>(stride);
  }
}

void ImportedTensor::set_dim(int64_t found) {
  imported_ = true;
  if (found < 0 || found > static_cast<int64_t>(kMaxTensorDims)) {
    throw_error(make_error(Error::InvalidArgument, "a tensor has %lld dimensions, at most %zu work",
                           static_cast<long long>(found), kMaxTensorDims));
  }
  dim = static_cast<size_t>(found);
}

void ImportedTensor::clear() {
  if (buffer_.obj) PyBuffer_Release(&buffer_);
  owner_.reset();
  imported_ = false;
}

}  // namespace pteron::python
