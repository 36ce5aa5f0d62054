// Whose workspace cuBLAS uses on the calling thread.
//
//   BlasWorkspace workspace;                 // of a method; memory comes when it is first needed
//   BlasWorkspace::set_current(&workspace);
//   gemm(...);
//   BlasWorkspace::set_current(nullptr);
//
// A method brings its own, so that its memory goes when the method goes. Outside of methods each
// thread keeps one for each stream.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/slim/core/storage.h"

namespace pteron::cuda {

class BlasWorkspace final {
 public:
  BlasWorkspace();
  BlasWorkspace(const BlasWorkspace&) = delete;
  BlasWorkspace& operator=(const BlasWorkspace&) = delete;

  static BlasWorkspace* current() { return current_; }
  // Null for none. Returns the one before.
  static BlasWorkspace* set_current(BlasWorkspace* workspace) {
    BlasWorkspace* previous = current_;
    current_ = workspace;
    return previous;
  }

  // Differs from that of every other one there ever was, and from 0.
  uint64_t id() const { return id_; }
  slim::StorageRef storage;

 private:
  static thread_local BlasWorkspace* current_;
  const uint64_t id_;
};

}  // namespace pteron::cuda
