// The names of the runtime's error codes, for Python.

#include <pybind11/pybind11.h>

#include "pteron/runtime/core/error.h"

PYBIND11_MODULE(_errors, m) {
  m.def("name",
        [](uint32_t code) { return pteron::Error::name(static_cast<pteron::Error::Code>(code)); });
}
