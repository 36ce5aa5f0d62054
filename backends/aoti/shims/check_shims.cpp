// Checks inside generated code, its warnings, and autograd's switch, which nothing here reads.
#include <stdexcept>
#include <utility>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::aoti {
namespace {

// Notes the failure; true if it is to be left by region_exit(). Leaves nothing to destroy behind.
bool note_failed_check(const char* function, const char* file, uint32_t line,
                       const char* message) noexcept {
  Error error =
      make_error(Error::InvalidArgument, "%s (%s, %s:%u)", message ? message : "check failed",
                 function ? function : "?", file ? file : "?", line);
  if (const RegionExit& exit = region_exit(); exit.fail) {
    Error copy(error.code(), error.message());
    if (exit.fail(std::move(copy))) return true;
  }
  fail_run(std::move(error));
  return false;
}

}  // namespace

// The one shim that throws. Its signature has no status code and generated code goes on as if the
// condition held, so returning would let it read out of bounds. The exception begins in this frame
// and passes only through frames of the model's shared object, whose entry points catch it and
// report a failure; no frame of this runtime lies between. In a parallel region no exception may
// leave, and the region's own way out is taken (failed_check.h).
PTERON_AOTI_SHIM(void, check)
(bool condition, const char* function, const char* file, uint32_t line, const char* message) {
  if (__builtin_expect(condition, 1)) return;
  if (note_failed_check(function, file, line, message)) region_exit().leave();
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
