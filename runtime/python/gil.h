// Releasing and acquiring the GIL, also during interpreter shutdown.
//
//   {
//     const WithoutGil without_gil;
//     error = method->execute();
//   }
//
// Up to Python 3.13, a daemon thread that requests the GIL during shutdown is ended there: its
// stack is unwound, as if by an exception that must not be caught, and destructors would access
// Python objects without the GIL. Here such a thread sleeps until the process exits, as in Python
// 3.14.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace pteron::python {

// The exception that unwinds an ended thread.
using ThreadEnd = abi::__forced_unwind;

[[noreturn]] inline void sleep_until_exit() noexcept {
  for (;;) pause();
}

// Calls `function()`, which may acquire the GIL; returns only with it.
template <typename Function>
auto with_gil_back(const Function& function) noexcept {
  try {
    return function();
  } catch (ThreadEnd&) {
    sleep_until_exit();
  }
}

// Releases the GIL for a scope.
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

// Holds the GIL for a scope, on a thread that may or may not have it.
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
