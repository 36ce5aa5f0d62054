#include "pteron/backends/cuda/runtime/capture_mutex.h"

namespace pteron::cuda {

std::mutex& capture_mutex() {
  static auto* const mutex = new std::mutex();  // methods may go after static destructors ran
  return *mutex;
}

}  // namespace pteron::cuda
