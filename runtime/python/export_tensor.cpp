#include "pteron/runtime/python/export_tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/python/import_tensor.h"
#include "pteron/runtime/python/python_error.h"

namespace nb = nanobind;

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
  DeviceAllocator* allocator = on_cpu ? nullptr : find_device_allocator(tensor.device().type);
  PTERON_CHECK_OR_RETURN(on_cpu || allocator, Error::NotFound,
                         "an output lies on a device whose memory nobody manages in this process; "
                         "open the library of its backend first");
  const size_t nbytes = tensor.nbytes();
  // Aligned by hand: malloc keeps small blocks at hand, aligned_alloc does not.
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
      PTERON_ASSIGN_OR_RETURN(managed.tensor.data, allocator->allocate(nbytes, tensor.device()));
    }
  }
  return owned;
}

void OwnedTensor::release(OwnedTensor* tensor) {
  if (tensor->device_.type != DeviceType::CPU && tensor->data()) {
    find_device_allocator(tensor->device_.type)->free(tensor->data(), tensor->device_);
  }
  tensor->~OwnedTensor();
  std::free(tensor);
}

Error OwnedTensor::copy_from(const Tensor& tensor) {
  if (nbytes_ == 0) return Error::Ok;
  if (device_.type != DeviceType::CPU) {
    return find_device_allocator(device_.type)->copy(data(), tensor.data(), nbytes_, device_);
  }
  std::memcpy(data(), tensor.data(), nbytes_);
  return Error::Ok;
}

Error OwnedTensor::copy_in_order_from(const Tensor& tensor) {
  if (nbytes_ == 0) return Error::Ok;
  return find_device_allocator(device_.type)
      ->copy_in_order(data(), tensor.data(), nbytes_, device_);
}

namespace {

// A tensor without a library: for processes that have neither torch nor a numpy dtype for it.
// Offers DLPack, and its bytes.
class DlpackArray final {
 public:
  explicit DlpackArray(OwnedTensorPtr tensor)
      : tensor_(tensor.release(), [](OwnedTensor* owned) { OwnedTensor::release(owned); }) {
    if (tensor_->device().type == DeviceType::CPU) return;
    written_ = value_or_throw(
        find_device_allocator(tensor_->device().type)->make_event(tensor_->device()));
    if (written_) throw_if_error(written_->record());
  }

  nb::tuple shape() const {
    const dlpack::Tensor& tensor = tensor_->tensor();
    auto shape = nb::steal<nb::tuple>(PyTuple_New(tensor.ndim));
    for (int32_t d = 0; d < tensor.ndim; ++d) {
      PyTuple_SET_ITEM(shape.ptr(), d, PyLong_FromLongLong(tensor.shape[d]));
    }
    return shape;
  }

  const char* dtype() const { return name_of(tensor_->dtype()); }

  nb::tuple device() const {
    const dlpack::Device device = tensor_->tensor().device;
    return nb::make_tuple(device.type, device.index);
  }

  // In memory order.
  nb::bytes tobytes() const {
    if (tensor_->device().type != DeviceType::CPU) {
      throw_error(Error(Error::NotSupported, "tobytes() of an array that is not on the CPU"));
    }
    return nb::bytes(tensor_->data(), tensor_->nbytes());
  }

  // The capsule shares the bytes with this array.
  nb::capsule dlpack(const nb::kwargs& arguments) const {
    if (written_) make_consumer_wait(arguments);
    bool versioned = false;
    const nb::object asked = arguments.get("max_version", nb::none());
    if (!asked.is_none()) {
      const auto version = nb::cast<nb::tuple>(asked);
      versioned = version.size() > 0 && nb::cast<uint32_t>(version[0]) >= dlpack::kMajorVersion;
    }
    return versioned ? share<dlpack::ManagedTensorVersioned>(dlpack::kVersionedCapsule)
                     : share<dlpack::ManagedTensor>(dlpack::kCapsule);
  }

 private:
  // DLPack's numbers: none and 1 are the default stream, 2 is that of each thread, which goes by
  // the same handle, -1 asks for nothing, others are handles.
  void make_consumer_wait(const nb::kwargs& arguments) const {
    const nb::object asked = arguments.get("stream", nb::none());
    const int64_t stream = asked.is_none() ? 1 : nb::cast<int64_t>(asked);
    if (stream == -1) return;
    throw_if_error(written_->make_wait(stream == 1 ? nullptr : reinterpret_cast<void*>(stream)));
  }

  template <typename Managed>
  struct Shared {
    Managed managed{};
    std::shared_ptr<OwnedTensor> owner;
  };

  template <typename Managed>
  nb::capsule share(const char* name) const {
    auto* shared = new Shared<Managed>;
    shared->owner = tensor_;
    shared->managed.tensor = tensor_->tensor();
    shared->managed.context = shared;
    shared->managed.deleter = [](Managed* self) {
      delete static_cast<Shared<Managed>*>(self->context);
    };
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
      shared->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
    }
    // A consumer renames the capsule and takes over; one that nobody took frees it.
    PyObject* capsule = PyCapsule_New(&shared->managed, name, [](PyObject* self) {
      for (const char* unused : {dlpack::kCapsule, dlpack::kVersionedCapsule}) {
        if (!PyCapsule_IsValid(self, unused)) continue;
        auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(self, unused));
        managed->deleter(managed);
        return;
      }
    });
    if (!capsule) {
      delete shared;
      throw nb::python_error();
    }
    return nb::steal<nb::capsule>(capsule);
  }

  std::shared_ptr<OwnedTensor> tensor_;
  std::unique_ptr<DeviceEvent> written_;  // behind what wrote it; null for one on the CPU
};

nb::object loaded_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* module = PyDict_GetItemString(modules, name);
  return nb::borrow(module ? module : Py_None);
}

nb::object import_or_none(const char* name) {
  if (PyObject* module = PyImport_ImportModule(name)) return nb::steal(module);
  if (!PyErr_ExceptionMatches(PyExc_ImportError)) throw nb::python_error();
  PyErr_Clear();
  return nb::none();
}

// numpy's dtype of that name, from numpy or ml_dtypes; None if there is no such thing here.
nb::object find_numpy_dtype(ScalarType dtype) {
  const nb::object numpy = import_or_none("numpy");
  if (numpy.is_none()) return numpy;
  const char* name = name_of(dtype);
  const nb::object make = numpy.attr("dtype");
  if (dtype == ScalarType::BFloat16 || dtype == ScalarType::Float8_e5m2 ||
      dtype == ScalarType::Float8_e4m3fn) {
    const nb::object ml_dtypes = import_or_none("ml_dtypes");
    return ml_dtypes.is_none() ? ml_dtypes : make(ml_dtypes.attr(name));
  }
  return make(name);
}

// As above, looked up once. Borrowed.
nb::handle numpy_dtype(ScalarType dtype) {
  static std::array<PyObject*, 32> dtypes{};  // by number on the wire, which is below 32
  PyObject*& cached = dtypes[static_cast<size_t>(dtype)];
  if (!cached) cached = find_numpy_dtype(dtype).release().ptr();
  return cached;
}

// What is used of numpy's C API: a table of functions, whose indices are numpy's ABI in both of its
// major versions.
class NumpyApi final {
 public:
  // Needs numpy and the GIL. Throws.
  static const NumpyApi& get() {
    static const NumpyApi* api = nullptr;  // the GIL guards it: looking numpy up may let go of it
    if (!api) api = new NumpyApi;
    return *api;
  }

  // An array over `data`, which `owner` keeps.
  nb::object make_array(nb::handle dtype, int dim, const Py_ssize_t* sizes,
                        const Py_ssize_t* strides, void* data, nb::object owner) const {
    auto array = nb::steal(new_from_descr_(array_type_, dtype.inc_ref().ptr(), dim, sizes, strides,
                                           data, kWriteable, nullptr));
    if (!array || set_base_object_(array.ptr(), owner.release().ptr()) != 0) {
      throw nb::python_error();
    }
    return array;
  }

 private:
  static constexpr int kWriteable = 0x400;
  using NewFromDescr = PyObject*(PyTypeObject* type, PyObject* stolen_dtype, int dim,
                                 const Py_ssize_t* sizes, const Py_ssize_t* strides, void* data,
                                 int flags, PyObject* prototype);
  using SetBaseObject = int(PyObject* array, PyObject* stolen_owner);

  NumpyApi() {
    nb::object module = import_or_none("numpy._core._multiarray_umath");
    if (module.is_none()) module = nb::module_::import_("numpy.core._multiarray_umath");  // numpy 1
    const nb::object capsule = module.attr("_ARRAY_API");
    auto** const table = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
    if (!table) throw nb::python_error();
    array_type_ = static_cast<PyTypeObject*>(table[2]);
    new_from_descr_ = reinterpret_cast<NewFromDescr*>(table[94]);
    set_base_object_ = reinterpret_cast<SetBaseObject*>(table[282]);
  }

  PyTypeObject* array_type_;
  NewFromDescr* new_from_descr_;
  SetBaseObject* set_base_object_;
};

nb::object to_numpy(OwnedTensorPtr tensor, nb::handle dtype) {
  const dlpack::Tensor& source = tensor->tensor();
  std::array<Py_ssize_t, kMaxTensorDims> strides;
  const auto element_nbytes = static_cast<Py_ssize_t>(element_size(tensor->dtype()));
  const auto dim = static_cast<size_t>(source.ndim);
  for (size_t d = 0; d < dim; ++d) strides[d] = source.strides[d] * element_nbytes;
  nb::capsule owner(tensor.get(), [](void* owned) noexcept {
    OwnedTensor::release(static_cast<OwnedTensor*>(owned));
  });
  tensor.release();
  return NumpyApi::get().make_array(dtype, source.ndim, source.shape, strides.data(), source.data,
                                    std::move(owner));
}

}  // namespace

nb::object to_python(OwnedTensorPtr tensor, const TensorStyle& style) {
  if (style.api) {
    void* object = nullptr;
    if (style.api->managed_to_object(tensor.release()->managed(), &object) != 0) {
      throw nb::python_error();
    }
    return nb::steal(static_cast<PyObject*>(object));
  }
  if (style.torch) {
    return loaded_module("torch").attr("from_dlpack")(nb::cast(DlpackArray(std::move(tensor))));
  }
  if (tensor->device().type == DeviceType::CPU) {
    const nb::handle dtype = numpy_dtype(tensor->dtype());
    if (!dtype.is_none()) return to_numpy(std::move(tensor), dtype);
  }
  return nb::cast(DlpackArray(std::move(tensor)));
}

TensorStyle style_of_process() {
  const nb::object torch = loaded_module("torch");
  if (torch.is_none() || !nb::hasattr(torch, "Tensor")) return {};
  const TensorType& type =
      tensor_type_of(reinterpret_cast<PyTypeObject*>(nb::object(torch.attr("Tensor")).ptr()));
  return {type.api, true};
}

void define_dlpack_array(nb::module_& module) {
  nb::class_<DlpackArray>(module, "DlpackArray",
                          "An output that neither torch nor numpy can hold in this process.\n\n"
                          "Hand it to any library that takes DLPack.")
      .def_prop_ro("shape", &DlpackArray::shape)
      .def_prop_ro("dtype", &DlpackArray::dtype, "The name, such as ``bfloat16``.")
      .def("tobytes", &DlpackArray::tobytes, "A copy of the bytes, in memory order.")
      .def("__dlpack__", &DlpackArray::dlpack)
      .def("__dlpack_device__", &DlpackArray::device);
}

}  // namespace pteron::python
