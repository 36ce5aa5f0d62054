#include "pteron/backends/aoti/ops/kernels.h"

#include <atomic>
#include <cstddef>

namespace pteron::aoti {
namespace {

std::atomic<const Kernels*>& kernels_of(DeviceType type) {
  static std::atomic<const Kernels*> kernels[64] = {};
  return kernels[static_cast<size_t>(type) % 64];
}

}  // namespace

void register_kernels(DeviceType type, const Kernels* kernels) {
  kernels_of(type).store(kernels, std::memory_order_release);
}

const Kernels* find_kernels(DeviceType type) {
  return kernels_of(type).load(std::memory_order_acquire);
}

}  // namespace pteron::aoti
