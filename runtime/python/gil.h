// Letting go of the GIL, and threads that do not get it back.
//
//   {
//     const WithoutGil without_gil;
//     error = method->execute();
//   }
//
// A daemon thread that asks for the GIL while the interpreter goes down is ended there, up to
// Python 3.13: its stack is unwound, as if by an exception that must not be caught. nanobind would
// tell it to Python as one, and crash, as would destructors that touch Python objects. Here such a
// thread sleeps until the process is gone, as every thread does from Python 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace pteron::python {

// What is thrown through a thread that is ended.
using ThreadEnd = abi::__forced_unwind;

[[noreturn]] inline void sleep_until_exit() noexcept {
  for (;;) pause();
}

// Without the GIL for a scope.
class WithoutGil final {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (ThreadEnd&) {
      sleep_until_exit();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const thread_;
};

// `callable(*arguments, **keywords)`, a new reference; null with an exception set if it raised one.
// For what may be written in Python, which gets the GIL back all the time.
inline PyObject* call_python(PyObject* callable, PyObject* arguments,
                             PyObject* keywords = nullptr) noexcept {
  try {
    return PyObject_Call(callable, arguments, keywords);
  } catch (ThreadEnd&) {
    sleep_until_exit();
  }
}

}  // namespace pteron::python
