// Views a tensor of any Python library without copying.
//
//   ImportedTensor tensor;
//   if (tensor.import(object)) use(tensor.data, tensor.sizes, tensor.strides);   // until clear()
//
// Tries in order: the type's DLPack exchange API (torch; calls no Python), the buffer protocol
// (NumPy, array, memoryview), `__dlpack__`.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <vector>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/element.h"
#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/python/dlpack.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

// Cached data of a Python tensor type; lives as long as the process.
struct TensorType {
  const dlpack::ExchangeApi* api = nullptr;  // null if the type has none
  bool is_torch = false;
  PyObject* is_neg = nullptr;  // torch's function of that name; null for other types
};

// Cached by type. Needs the GIL.
const TensorType& tensor_type_of(PyTypeObject* type);

class ImportedTensor final {
 public:
  ImportedTensor() = default;
  ~ImportedTensor() { clear(); }
  ImportedTensor(const ImportedTensor&) = delete;
  ImportedTensor& operator=(const ImportedTensor&) = delete;

  // False if `object` is no tensor; throws a Python exception for an unsupported tensor (dtype,
  // device, rank, sparse). Keeps the memory alive until clear(). Needs the GIL.
  bool import(PyObject* object);
  void clear();
  bool imported() const { return imported_; }
  // Whether it is dense in `dim_order`, outermost dimension first.
  bool has_layout(const std::vector<uint8_t>& dim_order) const {
    int64_t expected = 1;
    for (size_t i = dim_order.size(); i-- > 0;) {
      const size_t d = dim_order[i];
      if (sizes[d] == 0) return true;
      if (sizes[d] != 1 && strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  }
  // To its elements, and to `nbytes`.
  bool is_aligned(size_t nbytes = 1) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    return address % element_size(dtype) == 0 && address % nbytes == 0;
  }

  std::byte* data = nullptr;
  bool is_read_only = false;  // exported as read-only
  bool is_lazy =
      false;  // torch tensor whose memory does not hold its values (negative bit, or no storage)
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
