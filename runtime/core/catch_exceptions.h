// Where exceptions end: nothing that returns an Error or a Result throws.
//
//   Result<Table> read(Span<const uint8_t> file) {
//     return catch_exceptions([&]() -> Result<Table> { ... });
//   }
//
// Containers throw bad_alloc where a file asks for more than there is. Costs nothing where nothing
// is thrown.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "pteron/runtime/core/error.h"

namespace pteron {

// What `body()` returns; MemoryAllocationFailed for no memory (or more than can be addressed),
// Internal for any other std::exception.
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
