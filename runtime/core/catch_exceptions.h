// Converts exceptions to errors: functions that return an Error or a Result do not throw.
//
//   Result<Table> read(Span<const uint8_t> file) {
//     return catch_exceptions([&]() -> Result<Table> { ... });
//   }
//
// Containers throw bad_alloc if a file requires too much memory. No cost unless something is
// thrown.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "pteron/runtime/core/error.h"

namespace pteron {

// Returns `body()`; MemoryAllocationFailed for std::bad_alloc or std::length_error, Internal for
// any other std::exception.
template <typename Body>
auto catch_exceptions(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Error(Error::MemoryAllocationFailed);
  } catch (const std::length_error&) {
    return Error(Error::MemoryAllocationFailed);
  } catch (const std::exception& exception) {
    return make_error(Error::Internal, "%s", exception.what());
  }
}

}  // namespace pteron
