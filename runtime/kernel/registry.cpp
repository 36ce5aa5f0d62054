#include "pteron/runtime/kernel/registry.h"

#include <algorithm>
#include <string>

#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

struct Registry {
  ForkMutex mutex;
  std::vector<Span<const Kernel>> tables;

  // With the mutex held.
  const Kernel* find(std::string_view name) const {
    for (const Span<const Kernel>& table : tables) {
      for (const Kernel& kernel : table) {
        if (kernel.name == name) return &kernel;
      }
    }
    return nullptr;
  }
};

// Never destroyed: methods may still look up kernels at process exit.
Registry& registry() {
  static Once<Registry> registry;
  return registry.get([] { return Registry(); });
}

}  // namespace

Error register_kernels(Span<const Kernel> kernels) {
  Registry& all = registry();
  const std::lock_guard<ForkMutex> lock(all.mutex);
  std::string taken;
  for (const Kernel& kernel : kernels) {
    if (all.find(kernel.name)) taken += (taken.empty() ? "" : ", ") + std::string(kernel.name);
  }
  PTERON_CHECK_OR_RETURN(taken.empty(), Error::AlreadyLoaded,
                         "kernels are registered already: %s; a name has one kernel in a process",
                         taken.c_str());
  all.tables.push_back(kernels);
  return Error::Ok;
}

const Kernel* find_kernel(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard<ForkMutex> lock(all.mutex);
  return all.find(name);
}

std::vector<std::string_view> registered_kernels() {
  Registry& all = registry();
  const std::lock_guard<ForkMutex> lock(all.mutex);
  std::vector<std::string_view> names;
  for (const Span<const Kernel>& table : all.tables) {
    for (const Kernel& kernel : table) names.push_back(kernel.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pteron
