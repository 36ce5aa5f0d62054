// Letting go of the GIL, and threads that do not get it back.
//
//   {
//     const WithoutGil without_gil;
//     error = method->execute();
//   }
//
// A daemon thread that asks for the GIL while the interpreter goes down is ended there, up to
// Python 3.13: its stack is unwound, as if by an exception that must not be caught, and destructors
// on the way touch Python objects that are not the thread's to touch. Here such a thread sleeps
// until the process is gone, as every thread does from Python 3.14 on.
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

// `function()`, which may ask for the GIL; returns only with it.
template <typename Function>
auto with_gil_back(const Function& function) noexcept {
  try {
    return function();
  } catch (ThreadEnd&) {
    sleep_until_exit();
  }
}

// Without the GIL for a scope.
class WithoutGil final {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    with_gil_back([this] { PyEval_RestoreThread(thread_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const thread_;
};

// With the GIL for a scope, on a thread that may or may not have it.
class WithGil final {
 public:
  WithGil() : state_(with_gil_back([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace pteron::python
