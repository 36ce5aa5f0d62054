#include "pteron/backends/cpu/runtime/kernels/random.h"

#include <atomic>
#include <random>

namespace pteron::cpu {
namespace {

uint64_t system_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

std::atomic<uint64_t>& counter() {
  static std::atomic<uint64_t> value{system_seed()};
  return value;
}

}  // namespace

RandomStream next_random_stream() {
  // Mixing decorrelates consecutive counters.
  RandomStream mix(counter().fetch_add(1, std::memory_order_relaxed));
  return RandomStream(mix());
}

}  // namespace pteron::cpu
