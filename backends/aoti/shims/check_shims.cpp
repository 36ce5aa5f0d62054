// Checks inside generated code, its warnings, and autograd's switch, which nothing here reads.
#include <stdexcept>
#include <string>

#include "backends/aoti/shims/c_boundary.h"
#include "runtime/platform/log.h"

namespace pteron::aoti {

// The one shim that throws. Its signature has no status code and generated code goes on as if the
// condition held, so returning would let it read out of bounds. The exception begins in this frame
// and passes only through frames of the model image, whose entry points catch it and report a
// failure; no frame of this runtime lies between. Inside an OpenMP loop C++ allows no exception to
// leave, and the process ends there with the message: inputs are checked before a model sees them
// for that reason.
PTERON_AOTI_SHIM(void, check)
(bool condition, const char* function, const char* file, uint32_t line, const char* message) {
  if (__builtin_expect(condition, 1)) return;
  std::string text = message ? message : "check failed";
  text += " (";
  text += function ? function : "?";
  text += ", ";
  text += file ? file : "?";
  text += ":" + std::to_string(line) + ")";
  set_shim_error("check in the model", Error(Error::InvalidArgument, text));
  throw std::runtime_error(text);
}

PTERON_AOTI_SHIM(void, warn)
(const char* function, const char* file, uint32_t line, const char* message) {
  PTERON_LOG(Warning, "%s (%s, %s:%u)", message ? message : "", function ? function : "?",
             file ? file : "?", line);
}

namespace {
thread_local bool grad_mode = false;
}  // namespace

PTERON_AOTI_SHIM(bool, grad_mode_is_enabled)() { return grad_mode; }
PTERON_AOTI_SHIM(void, grad_mode_set_enabled)(bool enabled) { grad_mode = enabled; }

}  // namespace pteron::aoti
