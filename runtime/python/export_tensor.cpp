#include "pteron/runtime/python/export_tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "pteron/runtime/python/dlpack_array.h"
#include "pteron/runtime/python/import_tensor.h"
#include "pteron/runtime/python/python_error.h"

namespace pteron::python {
namespace {

constexpr size_t kAlignment = 64;

constexpr uintptr_t round_up(uintptr_t address) {
  return (address + kAlignment - 1) & ~(kAlignment - 1);
}

dlpack::DataType dlpack_dtype(ScalarType dtype) {
  switch (dtype) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  case ScalarType::name:                                                              \
    return {dlpack_code, dlpack_bits, 1};
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  }
  return {};
}

}  // namespace

Result<OwnedTensorPtr> OwnedTensor::allocate(const Tensor& tensor) {
  const bool on_cpu = tensor.device().type == DeviceType::CPU;
  const size_t nbytes = tensor.nbytes();
  // Aligned manually: malloc caches small blocks, aligned_alloc does not.
  const size_t header = sizeof(OwnedTensor) + kAlignment;
  void* memory = nullptr;
  if (nbytes < SIZE_MAX - header) memory = std::malloc(header + (on_cpu ? nbytes : 0));
  PTERON_CHECK_OR_RETURN(memory, Error::MemoryAllocationFailed,
                         "no memory for an output of %zu bytes", nbytes);
  OwnedTensorPtr owned(new (memory) OwnedTensor);
  owned->dtype_ = tensor.dtype();
  owned->device_ = tensor.device();
  owned->nbytes_ = nbytes;
  std::copy_n(tensor.sizes().data(), tensor.dim(), owned->shape_.begin());
  std::copy_n(tensor.strides().data(), tensor.dim(), owned->strides_.begin());
  dlpack::ManagedTensorVersioned& managed = owned->managed_;
  managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  managed.context = owned.get();
  managed.deleter = [](dlpack::ManagedTensorVersioned* self) {
    release(static_cast<OwnedTensor*>(self->context));
  };
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + sizeof(OwnedTensor);
  managed.tensor = {reinterpret_cast<void*>(round_up(end)),
                    {on_cpu ? dlpack::kCpu : dlpack::kCuda, tensor.device().index},
                    static_cast<int32_t>(tensor.dim()),
                    dlpack_dtype(tensor.dtype()),
                    owned->shape_.data(),
                    owned->strides_.data(),
                    0};
  if (!on_cpu) {
    managed.tensor.data = nullptr;
    if (nbytes > 0) {
      PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator,
                              device_allocator_of(tensor.device()));
      PTERON_ASSIGN_OR_RETURN(owned->storage_, allocator->allocate(nbytes, tensor.device()));
      managed.tensor.data = owned->storage_->data;
    }
  }
  return owned;
}

void OwnedTensor::release(OwnedTensor* tensor) {
  tensor->~OwnedTensor();
  std::free(tensor);
}

Error OwnedTensor::copy_from(const Tensor& tensor, Wait wait) {
  if (nbytes_ == 0) return Error::Ok;
  if (device_.type != DeviceType::CPU) {
    return find_device_allocator(device_.type)
        ->copy(data(), device_, tensor.data(), device_, nbytes_, wait);
  }
  std::memcpy(data(), tensor.data(), nbytes_);
  return Error::Ok;
}

namespace {

// Null if it is not loaded, or is None.
Object loaded_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* module = PyDict_GetItemString(modules, name);
  return borrow(module == Py_None ? nullptr : module);
}

// Null if there is no such module.
Object try_import(const char* name) {
  try {
    return import_module(name);
  } catch (const PythonError&) {
    if (!PyErr_ExceptionMatches(PyExc_ImportError)) throw;
    PyErr_Clear();
    return nullptr;
  }
}

// numpy's dtype of that name, from numpy or ml_dtypes; None if there is no such thing here.
Object find_numpy_dtype(ScalarType dtype) {
  const Object numpy = try_import("numpy");
  if (!numpy) return none();
  const char* name = name_of(dtype);
  if (dtype == ScalarType::BFloat16 || dtype == ScalarType::Float8_e5m2 ||
      dtype == ScalarType::Float8_e4m3fn) {
    const Object ml_dtypes = try_import("ml_dtypes");
    const Object type = ml_dtypes ? get_attribute(ml_dtypes.get(), name) : nullptr;
    return type ? call_method(numpy.get(), "dtype", "(O)", type.get()) : none();
  }
  return call_method(numpy.get(), "dtype", "(s)", name);
}

// As above, looked up once. Borrowed.
PyObject* numpy_dtype(ScalarType dtype) {
  static std::array<PyObject*, 32> dtypes{};  // by ScalarType value, which is below 32
  PyObject*& cached = dtypes[static_cast<size_t>(dtype)];
  if (!cached) cached = find_numpy_dtype(dtype).release();
  return cached;
}

// NumPy's C API: a function table whose indices are stable in NumPy 1 and 2.
class NumpyApi final {
 public:
  // Needs numpy and the GIL. Throws.
  static const NumpyApi& get() {
    static const NumpyApi* api = nullptr;  // guarded by the GIL, which importing NumPy may release
    if (!api) api = new NumpyApi;
    return *api;
  }

  // An array over `data`, which `owner` keeps alive.
  Object make_array(PyObject* dtype, int dim, const Py_ssize_t* sizes, const Py_ssize_t* strides,
                    void* data, Object owner) const {
    Py_INCREF(dtype);
    Object array = checked(
        new_from_descr_(array_type_, dtype, dim, sizes, strides, data, kWriteable, nullptr));
    if (set_base_object_(array.get(), owner.release()) != 0) throw PythonError();
    return array;
  }

 private:
  static constexpr int kWriteable = 0x400;
  using NewFromDescr = PyObject*(PyTypeObject* type, PyObject* stolen_dtype, int dim,
                                 const Py_ssize_t* sizes, const Py_ssize_t* strides, void* data,
                                 int flags, PyObject* prototype);
  using SetBaseObject = int(PyObject* array, PyObject* stolen_owner);

  NumpyApi() {
    Object module = try_import("numpy._core._multiarray_umath");
    if (!module) module = import_module("numpy.core._multiarray_umath");  // numpy 1
    const Object capsule = checked(PyObject_GetAttrString(module.get(), "_ARRAY_API"));
    auto** const table = static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr));
    if (!table) throw PythonError();
    array_type_ = static_cast<PyTypeObject*>(table[2]);
    new_from_descr_ = reinterpret_cast<NewFromDescr*>(table[94]);
    set_base_object_ = reinterpret_cast<SetBaseObject*>(table[282]);
  }

  PyTypeObject* array_type_;
  NewFromDescr* new_from_descr_;
  SetBaseObject* set_base_object_;
};

Object to_numpy(OwnedTensorPtr tensor, PyObject* dtype) {
  const dlpack::Tensor& source = tensor->tensor();
  std::array<Py_ssize_t, kMaxTensorDims> strides;
  const auto element_nbytes = static_cast<Py_ssize_t>(element_size(tensor->dtype()));
  const auto dim = static_cast<size_t>(source.ndim);
  for (size_t d = 0; d < dim; ++d) strides[d] = source.strides[d] * element_nbytes;
  Object owner = checked(PyCapsule_New(tensor.get(), nullptr, [](PyObject* capsule) {
    OwnedTensor::release(static_cast<OwnedTensor*>(PyCapsule_GetPointer(capsule, nullptr)));
  }));
  tensor.release();
  return NumpyApi::get().make_array(dtype, source.ndim, source.shape, strides.data(), source.data,
                                    std::move(owner));
}

}  // namespace

Object to_python(OwnedTensorPtr tensor, const TensorStyle& style) {
  if (style.api) {
    void* object = nullptr;
    if (style.api->managed_to_object(tensor.release()->managed(), &object) != 0) {
      throw PythonError();
    }
    return Object(static_cast<PyObject*>(object));
  }
  if (style.torch) {
    return call_method(import_module("torch").get(), "from_dlpack", "(N)",
                       DlpackArray::make(std::move(tensor)).release());
  }
  if (tensor->device().type == DeviceType::CPU) {
    PyObject* const dtype = numpy_dtype(tensor->dtype());
    if (dtype != Py_None) return to_numpy(std::move(tensor), dtype);
  }
  return DlpackArray::make(std::move(tensor));
}

TensorStyle style_of_process() {
  const Object torch = loaded_module("torch");
  const Object type = torch ? get_attribute(torch.get(), "Tensor") : nullptr;
  if (!type || !PyType_Check(type.get())) return {};
  return {tensor_type_of(reinterpret_cast<PyTypeObject*>(type.get())).api, true};
}

}  // namespace pteron::python
