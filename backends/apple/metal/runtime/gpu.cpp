#include "pteron/backends/apple/metal/runtime/gpu.h"

#include <atomic>

namespace pteron::metal {
namespace {

std::atomic<Gpu*> registered{nullptr};

}  // namespace

void register_gpu(std::unique_ptr<Gpu> gpu) {
  Gpu* none = nullptr;
  if (registered.compare_exchange_strong(none, gpu.get())) (void)gpu.release();
}

Result<Gpu*> find_gpu() {
  Gpu* const gpu = registered.load(std::memory_order_acquire);
  PTERON_CHECK_OR_RETURN(gpu, Error::NotFound,
                         "the program wants a Metal device (an Apple GPU, macOS 14), and there is "
                         "none; this is %s and "
                         "there is the CPU. Lower the model for the CPU to run it here; on a Mac "
                         "the backend was never run",
                         kPlatform);
  return gpu;
}

}  // namespace pteron::metal
