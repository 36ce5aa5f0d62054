#include "runtime/python/python_error.h"

namespace py = pybind11;

namespace pteron::python {

void throw_error(const Error& error) {
  const py::object make = py::module_::import("runtime.python.errors").attr("error_of_code");
  const py::object exception =
      make(static_cast<uint32_t>(error.code()), Error::name(error.code()), error.message());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace pteron::python
