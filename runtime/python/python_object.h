// Python objects through the CPython API.
//
//   const Object name = get_attribute(dtype, "name");  // null: no such attribute
//   const Object bytes = call_method(array, "view", "(s)", "uint8");
//
// A Python error is thrown as PythonError and returned to Python at the boundary (python_type.h,
// module.cpp). All functions need the GIL.
#pragma once

#include <Python.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <variant>

#include "pteron/runtime/python/gil.h"

namespace pteron::python {

// Thrown when a Python exception is set.
struct PythonError final {};

struct DropReference final {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
// A reference, or null.
using Object = std::unique_ptr<PyObject, DropReference>;

inline Object borrow(PyObject* object) {
  Py_XINCREF(object);
  return Object(object);
}

inline Object none() { return borrow(Py_None); }

// Takes the new reference that a CPython function returned; throws if null.
inline Object checked(PyObject* result) {
  if (!result) throw PythonError();
  return Object(result);
}

// Throws our exception instead of UnicodeError, for invalid UTF-8 in a program and for a str that
// cannot be encoded.
[[noreturn]] void refuse_bytes(std::string_view text);
[[noreturn]] void refuse_str();

// Borrowed from `text`; throws TypeError if it is not a str.
inline std::string_view to_view(PyObject* text) {
  Py_ssize_t length = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &length);
  if (!data && PyErr_ExceptionMatches(PyExc_UnicodeError)) refuse_str();
  if (!data) throw PythonError();
  return {data, static_cast<size_t>(length)};
}

inline Object to_object(std::string_view text) {
  PyObject* const made =
      PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  if (!made && PyErr_ExceptionMatches(PyExc_UnicodeError)) refuse_bytes(text);
  return checked(made);
}

inline Object to_object(std::monostate) { return none(); }

// A bool, float or int.
template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Object to_object(T value) {
  if constexpr (std::is_same_v<T, bool>) return checked(PyBool_FromLong(value));
  if constexpr (std::is_floating_point_v<T>) return checked(PyFloat_FromDouble(value));
  if constexpr (std::is_unsigned_v<T>) return checked(PyLong_FromUnsignedLongLong(value));
  return checked(PyLong_FromLongLong(value));
}

// A list of what `make` returns for 0, 1, ...
template <typename Make>
Object list_of(size_t count, const Make& make) {
  Object list = checked(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), make(i).release());
  }
  return list;
}

template <typename Values>
Object to_list(const Values& values) {
  return list_of(values.size(), [&](size_t i) { return to_object(values[i]); });
}

// The following functions may run Python code, and thus other threads.

// Null if there is no such attribute, without raising.
inline Object get_attribute(PyObject* object, const char* name) {
#if PY_VERSION_HEX >= 0x030D0000
  constexpr auto look_up = PyObject_GetOptionalAttr;
#else
  constexpr auto look_up = _PyObject_LookupAttr;  // its name before it was public
#endif
  const Object key = checked(PyUnicode_InternFromString(name));
  PyObject* found = nullptr;
  if (with_gil_back([&] { return look_up(object, key.get(), &found); }) < 0) throw PythonError();
  return Object(found);
}

// Null with an exception set if it raised one.
inline Object try_call(const Object& callable, const Object& arguments,
                       const Object& keywords = nullptr) {
  return Object(with_gil_back(
      [&] { return PyObject_Call(callable.get(), arguments.get(), keywords.get()); }));
}

// `object.name(...)`, with the arguments of Py_BuildValue for a tuple.
template <typename... Arguments>
Object call_method(PyObject* object, const char* name, const char* format, Arguments... arguments) {
  const Object tuple = checked(Py_BuildValue(format, arguments...));
  const Object method =
      checked(with_gil_back([&] { return PyObject_GetAttrString(object, name); }));
  return checked(try_call(method, tuple).release());
}

inline Object import_module(const char* name) {
  return checked(with_gil_back([&] { return PyImport_ImportModule(name); }));
}

}  // namespace pteron::python
