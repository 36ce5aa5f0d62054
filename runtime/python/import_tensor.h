// A tensor of whatever Python library, seen without copying.
//
//   ImportedTensor tensor;
//   if (tensor.import(object)) use(tensor.data, tensor.sizes, tensor.strides);   // until clear()
//
// Tried in this order: DLPack's exchange API of the type (no Python is called: torch), the buffer
// protocol (numpy, array, memoryview), `__dlpack__`.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/python/dlpack.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

// What is known of a tensor type of Python; kept for the life of the process.
struct TensorType {
  const dlpack::ExchangeApi* api = nullptr;  // null if the type has none
  bool is_torch = false;
  PyObject* is_neg = nullptr;  // torch's function of that name, kept; null if it is not torch's
};

// Cached by type. Needs the GIL.
const TensorType& tensor_type_of(PyTypeObject* type);

class ImportedTensor final {
 public:
  ImportedTensor() = default;
  ~ImportedTensor() { clear(); }
  ImportedTensor(const ImportedTensor&) = delete;
  ImportedTensor& operator=(const ImportedTensor&) = delete;

  // False if `object` is no tensor; throws a Python exception if it is one that cannot be used here
  // (its dtype, device or rank, or since it is sparse, say). Keeps the bytes alive until clear(). Needs the GIL.
  bool import(PyObject* object);
  void clear();
  bool imported() const { return imported_; }

  std::byte* data = nullptr;
  bool is_read_only = false;  // its owner lets nobody write the bytes
  bool is_lazy = false;  // of torch's, and the bytes are not the values: their negative, or none
  ScalarType dtype = ScalarType::Float;
  Device device;
  size_t dim = 0;
  std::array<int64_t, kMaxTensorDims> sizes{};
  std::array<int64_t, kMaxTensorDims> strides{};  // in elements
  TensorType type;

 private:
  bool import_buffer(PyObject* object);
  bool import_custom_dtype(PyObject* object);
  bool import_dlpack(PyObject* object);
  void set(const dlpack::Tensor& tensor);
  void set_contiguous_strides();
  void set_dim(int64_t dim);

  Object owner_;
  bool imported_ = false;
  Py_buffer buffer_{};  // released if buffer_.obj is set
};

}  // namespace pteron::python
