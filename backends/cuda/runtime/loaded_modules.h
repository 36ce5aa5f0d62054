// The CUDA modules that one model loaded, so that they go when it goes.
//
// Compiled models load their kernels at their first run and most never unload them. The driver
// shims write down here what was loaded, for the model whose ExecutionScope is open.
//
//   LoadedModules modules;
//   modules.add(module, device);
//   modules.unload_all();          // after the device is done with their kernels
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
  // The model unloaded it itself. False if it is not here.
  bool remove(CUmodule module);
  // Unloads what is left. The first failure is returned; all are tried.
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
