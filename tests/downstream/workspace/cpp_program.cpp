// Prints what the runtime says about an error.

#include <cstdio>

#include "runtime/core/error.h"

int main() {
  const pteron::Error error = pteron::make_error(pteron::Error::NotFound, "no file at %s", "x.pte");
  std::printf("%s: %s\n", pteron::Error::name(error.code()), error.message().c_str());
  return error == pteron::Error::NotFound ? 0 : 1;
}
