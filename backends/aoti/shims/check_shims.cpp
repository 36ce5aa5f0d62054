// Assertions and warnings of generated code, and autograd mode, which is ignored.
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::aoti {
namespace {

// Whether the check is that of operator new in backends/aoti/toolchain.py.
bool is_of_memory(const char* function) {
  return function && std::strcmp(function, "operator new") == 0;
}

// Records the failure; true if the caller must leave by region_exit(). Leaves no object with a
// destructor behind.
bool note_failed_check(const char* function, const char* file, uint32_t line,
                       const char* message) noexcept {
  // There may be no memory for a message.
  Error error =
      is_of_memory(function)
          ? Error(Error::MemoryAllocationFailed)
          : make_error(Error::InvalidArgument, "%s (%s, %s:%u)", message ? message : "check failed",
                       function ? function : "?", file ? file : "?", line);
  const RegionExit& exit = region_exit();
  if (exit.fail && exit.fail(&error)) return true;
  if (!is_of_memory(function)) fail_run(std::move(error));
  return false;
}

}  // namespace

// The one shim that throws. Its signature has no status code and generated code goes on as if the
// condition held, so returning would allow out-of-bounds reads. The exception is thrown in this
// frame and passes only through frames of the model's shared object, whose entry points catch it
// and report a failure; no frame of this runtime is in between. An exception must not leave a
// parallel region; there region_exit() is used instead (failed_check.h).
PTERON_AOTI_SHIM(void, check)
(bool condition, const char* function, const char* file, uint32_t line, const char* message) {
  if (__builtin_expect(condition, 1)) return;
  if (note_failed_check(function, file, line, message)) region_exit().leave();
  if (is_of_memory(function)) throw std::bad_alloc();
  throw std::runtime_error(shim_error());
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
