// Python types for C++ classes through the CPython API: calls are as fast as a builtin's.
//
//   PyMethodDef methods[] = {{"execute", method_of<&PyMethod::execute>, METH_O, nullptr}, {}};
//   PyTypeObject* const type = make_type<PyMethod>("module.Method", "A method.", methods);
//   Object method = make_object(type, std::make_unique<PyMethod>(...));
//
// Such types cannot be subclassed or instantiated in Python.
#pragma once

#include <Python.h>

#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>

#include "pteron/runtime/python/gil.h"
#include "pteron/runtime/python/python_object.h"

namespace pteron::python {

template <typename T>
struct Instance {
  PyObject base;
  T* value;  // owned
};

template <typename T>
T& value_of(PyObject* object) {
  return *reinterpret_cast<Instance<T>*>(object)->value;
}

template <typename Member>
struct ClassOf;
template <typename Member, typename T>
struct ClassOf<Member T::*> {
  using Type = T;
};

// Wraps a member function that returns an Object for CPython, with its arguments or none. Catches
// all exceptions.
template <auto function, typename... Arguments>
PyObject* method_of(PyObject* self, Arguments... arguments) noexcept {
  using T = typename ClassOf<decltype(function)>::Type;
  try {
    T& value = value_of<T>(self);
    if constexpr (std::is_invocable_v<decltype(function), T&, Arguments...>) {
      return std::invoke(function, value, arguments...).release();
    } else {
      return std::invoke(function, value).release();
    }
  } catch (const PythonError&) {
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (ThreadEnd&) {
    sleep_until_exit();
  }
  return nullptr;
}

inline PyGetSetDef no_properties[] = {{}};

// `name` is its qualified name. All arguments must outlive the type; the tables end with {}.
template <typename T>
PyTypeObject* make_type(const char* name, const char* doc, PyMethodDef* methods,
                        PyGetSetDef* properties = no_properties) {
  destructor const deallocate = [](PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    delete &value_of<T>(self);
    type->tp_free(self);
    Py_DECREF(type);
  };
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                         {Py_tp_doc, const_cast<char*>(doc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, properties},
                         {0, nullptr}};
  PyType_Spec spec{name, sizeof(Instance<T>), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
}

template <typename T>
Object make_object(PyTypeObject* type, std::unique_ptr<T> value) {
  PyObject* const object = type->tp_alloc(type, 0);
  if (!object) throw PythonError();
  reinterpret_cast<Instance<T>*>(object)->value = value.release();
  return Object(object);
}

}  // namespace pteron::python
