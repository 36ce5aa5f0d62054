// Thread-local context of shim calls: one model's memory, modules and settings.
//
//   ExecutionScope scope(&resources);        // until the end of the block
//   container.run(...);                      // its shims use `resources`
//
// Scopes nest; outside any scope, shims use the current stream's memory and default settings.
#pragma once

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/loaded_modules.h"

namespace pteron::cuda {

struct ExecutionResources {
  CachingPool* pool = nullptr;                    // for tensors on pool->device()
  slim::StorageSource* output_buffers = nullptr;  // for tensors there, before the pool; may be null
  LoadedModules* modules = nullptr;               // records modules that the model loads
  bool allow_tf32 = false;       // float32 matmuls may round their operands to TF32
  bool record_products = false;  // GemmProblem::record
};

class ExecutionScope final {
 public:
  explicit ExecutionScope(const ExecutionResources* resources) : previous_(current_) {
    current_ = resources;
  }
  ~ExecutionScope() { current_ = previous_; }
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

  // Null outside of any scope.
  static const ExecutionResources* current() { return current_; }

 private:
  static thread_local const ExecutionResources* current_;
  const ExecutionResources* previous_;
};

}  // namespace pteron::cuda
