// The boundary between C++ and the C ABI, used by every shim.
//
//   PTERON_AOTI_SHIM(AOTITorchError, get_dim)(AtenTensorHandle tensor, int64_t* ret_dim) {
//     return c_boundary("aoti_torch_get_dim", [&]() -> Error {
//       PTERON_RETURN_IF_ERROR(check_defined(tensor, "tensor"));
//       *ret_dim = tensor->dim();             // outputs last: untouched on failure
//       return Error::Ok;
//     });
//   }
//
// Returns only a status code: throws nothing and prints nothing. The message is stored per thread
// until its next failure or clear_shim_error(). The caller of the model reads it, since the model's
// own message only names a line of generated source.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

// Stores `error` of `shim` as the calling thread's message, unless its run has failed already
// (failed_check.h). Never throws.
void set_shim_error(std::string_view shim, const Error& error) noexcept;

// The message of the last failing shim of this thread; empty if none failed since the last clear.
const std::string& shim_error();
// The error code of that failure.
Error::Code shim_error_code();
void clear_shim_error() noexcept;

template <typename Body>
inline AOTITorchError c_boundary(const char* shim, Body&& body) noexcept {
  try {
    Error error = std::forward<Body>(body)();
    if (__builtin_expect(error.ok(), 1)) return kAotiSuccess;
    set_shim_error(shim, error);
  } catch (const std::bad_alloc&) {
    set_shim_error(shim, Error::MemoryAllocationFailed);
  } catch (const std::exception& exception) {
    try {
      set_shim_error(shim, Error(Error::Internal, exception.what()));
    } catch (...) {
      set_shim_error(shim, Error::Internal);
    }
  } catch (...) {
    set_shim_error(shim, Error::Internal);
  }
  return kAotiFailure;
}

}  // namespace pteron::aoti
