#include "pteron/backends/cuda/runtime/capture_mutex.h"

namespace pteron::cuda {

std::mutex& capture_mutex() {
  static auto* const mutex =
      new std::mutex();  // never destroyed: methods may outlive static destructors
  return *mutex;
}

}  // namespace pteron::cuda
