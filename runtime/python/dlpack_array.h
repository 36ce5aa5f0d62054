// A tensor for processes with neither torch nor a NumPy dtype for it. Supports DLPack and
// tobytes().
#pragma once

#include <Python.h>

#include <memory>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/python/export_tensor.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

class DlpackArray final {
 public:
  // Throws.
  explicit DlpackArray(OwnedTensorPtr tensor);

  // The class as Python sees it. Borrowed; throws.
  static PyTypeObject* type();
  // Of that class. Throws.
  static Object make(OwnedTensorPtr tensor);

  Object shape() const;
  Object dtype() const;
  Object device() const;
  // In memory order.
  Object tobytes() const;
  // The capsule shares the bytes with this array. `arguments` is Python's tuple, `keywords` a dict
  // or null.
  Object dlpack(PyObject* arguments, PyObject* keywords) const;

 private:
  void make_consumer_wait(PyObject* asked) const;
  template <typename Managed>
  Object share(const char* name) const;

  std::shared_ptr<OwnedTensor> tensor_;
  std::unique_ptr<DeviceEvent> written_;  // event after the last write; null on the CPU
};

}  // namespace pteron::python
