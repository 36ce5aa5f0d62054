// The boundary between C++ and the C ABI, which every shim goes through.
//
//   PTERON_AOTI_SHIM(AOTITorchError, get_dim)(AtenTensorHandle tensor, int64_t* ret_dim) {
//     return c_boundary("aoti_torch_get_dim", [&]() -> Error {
//       PTERON_RETURN_IF_ERROR(check_defined(tensor, "tensor"));
//       *ret_dim = tensor->dim();             // outputs last: untouched on failure
//       return Error::Ok;
//     });
//   }
//
// Out comes a status code and nothing else: no exception, and nothing printed. The message stays
// with the thread until its next failure or clear_shim_error(); who runs the model reads it there,
// since the model's own message says only which line of its source failed.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

// Keeps `error`, said by `shim`, as the calling thread's message, unless its run has failed before
// (failed_check.h). Never throws.
void set_shim_error(std::string_view shim, const Error& error) noexcept;

// What the last failing shim of this thread said; empty if none failed since the last clear.
const std::string& shim_error();
// The code of that failure.
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
