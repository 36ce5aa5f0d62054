// Converts Errors to Python exceptions with the same message.
#pragma once

#include <Python.h>

#include <string>
#include <utility>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

// Sets the exception of the error's family (see errors.py). Needs the GIL.
inline void set_error(const Error& error) {
  const std::string message = error.message();
  PyObject* const text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  // "N" steals `text`; null propagates its exception.
  const Object exception =
      call_method(import_module("pteron.runtime.python.errors").get(), "error_of_code", "(IsN)",
                  static_cast<unsigned>(error.code()), Error::name(error.code()), text);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

// Sets it and throws; under pybind11, throwing a known type takes half the time of a translated
// one.
template <typename Thrown = PythonError>
[[noreturn]] void throw_error(const Error& error) {
  set_error(error);
  throw Thrown();
}

// Nothing on success. Needs the GIL.
inline void throw_if_error(const Error& error) {
  if (__builtin_expect(!error.ok(), 0)) throw_error(error);
}

// The value, or throws. Needs the GIL.
template <typename Thrown = PythonError, typename T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw_error<Thrown>(result.error());
  return std::move(result.get());
}

}  // namespace pteron::python
