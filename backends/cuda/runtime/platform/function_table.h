// Fills a struct of function pointers from a vendor library; all or none.
#pragma once

#include "pteron/backends/cuda/runtime/platform/dynamic_library.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

template <typename Function>
Error load_function(const DynamicLibrary& library, const char* name, Function* function) {
  Result<void*> address = library.symbol(name);
  if (!address.ok()) return address.take_error();
  *function = reinterpret_cast<Function>(*address);
  return Error::Ok;
}

}  // namespace pteron::cuda
