// Errors of the runtime as Python exceptions, with the same text.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/python/gil.h"

namespace pteron::python {

// Throws the exception of the error's family (see errors.py). Needs the GIL.
[[noreturn]] inline void throw_error(const Error& error) {
  namespace nb = nanobind;
  const std::string message = error.message();  // may name a file in whatever encoding
  const nb::object make =
      nb::module_::import_("pteron.runtime.python.errors").attr("error_of_code");
  PyObject* const text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  // "N" takes `text` over; null passes on what was raised.
  const auto arguments = nb::steal(
      Py_BuildValue("(IsN)", static_cast<unsigned>(error.code()), Error::name(error.code()), text));
  if (!arguments) throw nb::python_error();
  const auto exception = nb::steal(call_python(make.ptr(), arguments.ptr()));
  if (!exception) throw nb::python_error();
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
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
