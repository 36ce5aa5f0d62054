// Errors of the runtime as Python exceptions, with the same text.
#pragma once

#include <pybind11/pybind11.h>

#include "runtime/core/error.h"
#include "runtime/core/result.h"

namespace pteron::python {

// Throws the exception of the error's family (see errors.py). Needs the GIL.
[[noreturn]] inline void throw_error(const Error& error) {
  namespace py = pybind11;
  const py::object make = py::module_::import("runtime.python.errors").attr("error_of_code");
  const py::object exception =
      make(static_cast<uint32_t>(error.code()), Error::name(error.code()), error.message());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

// Nothing on success. Needs the GIL.
inline void throw_if_error(const Error& error) {
  if (__builtin_expect(!error.ok(), 0)) throw_error(error);
}

// The value, or throws. Needs the GIL.
template <typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw_error(result.error());
  return std::move(result.get());
}

}  // namespace pteron::python
