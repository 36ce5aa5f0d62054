// What must not happen while a stream is being captured, in this library: one capture at a time, and
// no module is unloaded meanwhile, since that waits for the context.
#pragma once

#include <mutex>

namespace pteron::cuda {

std::mutex& capture_mutex();

}  // namespace pteron::cuda
