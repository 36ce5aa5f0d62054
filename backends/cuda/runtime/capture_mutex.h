// Serializes stream captures with each other and with module unloading, which synchronizes the
// context.
#pragma once

#include <mutex>

namespace pteron::cuda {

std::mutex& capture_mutex();

}  // namespace pteron::cuda
