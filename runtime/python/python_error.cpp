#include "pteron/runtime/python/python_error.h"

#include "pteron/runtime/core/printable.h"

namespace pteron::python {

void refuse_bytes(std::string_view text) {
  PyErr_Clear();
  throw_error(make_error(Error::InvalidProgram, "text in the program is no UTF-8: \"%s\"",
                         printable(text.substr(0, 200)).c_str()));
}

void refuse_str() {
  PyErr_Clear();
  throw_error(Error(Error::InvalidArgument,
                    "a str has halves of characters (surrogates), which no name or text here has"));
}

}  // namespace pteron::python
