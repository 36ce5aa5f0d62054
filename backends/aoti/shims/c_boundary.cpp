#include "pteron/backends/aoti/shims/c_boundary.h"

#include "pteron/backends/aoti/shims/failed_check.h"

namespace pteron::aoti {
namespace {

std::string& thread_message() {
  static thread_local std::string message;
  return message;
}

thread_local Error::Code thread_code = Error::Ok;

}  // namespace

void set_shim_error(std::string_view shim, const Error& error) noexcept {
  if (run_has_failed()) return;  // later failures of a failed run are consequences
  thread_code = error.code();
  thread_message().clear();
  try {
    std::string message(shim);
    message += ": ";
    message += error.message();
    thread_message() = std::move(message);
  } catch (...) {
    // No memory for a message: only the status code reports the failure.
  }
}

const std::string& shim_error() { return thread_message(); }

Error::Code shim_error_code() { return thread_code; }

void clear_shim_error() noexcept {
  thread_message().clear();
  thread_code = Error::Ok;
}

}  // namespace pteron::aoti
