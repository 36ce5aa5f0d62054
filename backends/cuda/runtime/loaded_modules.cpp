#include "pteron/backends/cuda/runtime/loaded_modules.h"

#include <algorithm>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/capture_mutex.h"
#include "pteron/backends/cuda/runtime/platform/driver.h"

namespace pteron::cuda {

void LoadedModules::add(CUmodule module, int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({module, device});
}

bool LoadedModules::remove(CUmodule module) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& entry) { return entry.module == module; });
  if (found == entries_.end()) return false;
  entries_.erase(found);
  return true;
}

Error LoadedModules::unload_all() {
  std::vector<Entry> entries;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    entries.swap(entries_);
  }
  if (entries.empty()) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const Driver* driver, Driver::get());
  const std::lock_guard<std::mutex> lock(capture_mutex());
  Error first = Error::Ok;
  for (const Entry& entry : entries) {
    Result<slim::CudaGuard> guard = slim::CudaGuard::make(entry.device);
    const CUresult status = guard.ok() ? driver->cuModuleUnload(entry.module) : CUDA_SUCCESS;
    if (status == CUDA_SUCCESS || !first.ok()) continue;
    const char* message = nullptr;
    (void)driver->cuGetErrorString(status, &message);
    first = make_error(Error::AccessFailed, "unloading a CUDA module: %s",
                       message ? message : "unknown error");
  }
  return first;
}

size_t LoadedModules::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

}  // namespace pteron::cuda
