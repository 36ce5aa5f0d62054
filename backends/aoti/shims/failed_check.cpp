#include "pteron/backends/aoti/shims/failed_check.h"

#include <utility>

#include "pteron/backends/aoti/shims/c_boundary.h"

namespace pteron::aoti {
namespace {

RegionExit exit_of_regions;

// The message is stored as the thread's shim error.
thread_local Error::Code failure = Error::Ok;

}  // namespace

bool set_region_exit(RegionExit exit) {
  exit_of_regions = exit;
  return true;
}

const RegionExit& region_exit() { return exit_of_regions; }

void fail_run(Error error) noexcept {
  if (run_has_failed()) return;
  set_shim_error("check in the model", error);
  failure = error.code();
}

bool run_has_failed() noexcept { return failure != Error::Ok; }

Error take_run_failure() {
  const Error::Code code = std::exchange(failure, Error::Ok);
  if (code == Error::Ok) return Error::Ok;
  Error error(code, shim_error());
  clear_shim_error();
  return error;
}

}  // namespace pteron::aoti
