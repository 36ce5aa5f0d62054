#include "pteron/backends/cuda/runtime/platform/driver.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "pteron/backends/cuda/runtime/platform/function_table.h"

namespace pteron::cuda {
namespace {

Result<std::unique_ptr<Driver>> open_driver() {
  PTERON_ASSIGN_OR_RETURN(DynamicLibrary library, DynamicLibrary::open("libcuda.so.1"));
  auto driver = std::make_unique<Driver>();
#define PTERON_LOAD(name, symbol) \
  PTERON_RETURN_IF_ERROR(load_function(library, symbol, &driver->name));
  PTERON_CUDA_DRIVER_FUNCTIONS(PTERON_LOAD)
#undef PTERON_LOAD
  return driver;
}

}  // namespace

Result<const Driver*> Driver::get() {
  static std::atomic<const Driver*> table{nullptr};
  if (const Driver* driver = table.load(std::memory_order_acquire)) return driver;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (const Driver* driver = table.load(std::memory_order_relaxed)) return driver;
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Driver> driver, open_driver());
  const Driver* opened = driver.release();  // lives as long as the process
  table.store(opened, std::memory_order_release);
  return opened;
}

}  // namespace pteron::cuda
