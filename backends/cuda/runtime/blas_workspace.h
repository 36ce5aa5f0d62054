// The cuBLAS workspace of the calling thread.
//
//   BlasWorkspace workspace;                 // of a method; allocated on first use
//   BlasWorkspace::set_current(&workspace);
//   gemm(...);
//   BlasWorkspace::set_current(nullptr);
//
// Each method has its own, freed with the method. Outside methods each thread has one per stream.
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
  // Null for none. Returns the previous one.
  static BlasWorkspace* set_current(BlasWorkspace* workspace) {
    BlasWorkspace* previous = current_;
    current_ = workspace;
    return previous;
  }

  // Unique in the process, never 0.
  uint64_t id() const { return id_; }
  slim::StorageRef storage;

 private:
  static thread_local BlasWorkspace* current_;
  const uint64_t id_;
};

}  // namespace pteron::cuda
