// The CUDA modules that a model loaded, to unload them with it.
//
// Compiled models load their kernels in their first run, and most never unload them. The driver
// shims record modules here, for the model whose ExecutionScope is open.
//
//   LoadedModules modules;
//   modules.add(module, device);
//   modules.unload_all();          // after their kernels have finished
//
// Thread-safe.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

class LoadedModules final {
 public:
  LoadedModules() = default;
  ~LoadedModules() { (void)unload_all(); }
  LoadedModules(const LoadedModules&) = delete;
  LoadedModules& operator=(const LoadedModules&) = delete;

  void add(CUmodule module, int device);
  // Called if the model unloaded a module itself. False if unknown.
  bool remove(CUmodule module);
  // Unloads all modules, also after a failure. Returns the first failure.
  Error unload_all();
  size_t size() const;

 private:
  struct Entry {
    CUmodule module;
    int device;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace pteron::cuda
