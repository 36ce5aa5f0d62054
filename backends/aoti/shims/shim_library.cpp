#include "pteron/backends/aoti/shims/shim_library.h"

#include <dlfcn.h>

#include "pteron/backends/aoti/shims/private_names.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::aoti {
namespace {

struct ShimLibraries {
  ForkMutex mutex;
  std::vector<const void*> anchors;
  size_t promoted = 0;  // number of anchors promoted, from the front
};

// Registration happens in static initializers, so the list is constructed on first use, and never
// destroyed.
ShimLibraries& shim_libraries() {
  static Once<ShimLibraries> libraries;
  return libraries.get([] { return ShimLibraries(); });
}

// The common shims.
[[maybe_unused]] const bool registered = register_shim_library(&registered);

}  // namespace

bool register_shim_library(const void* anchor) {
  ShimLibraries& libraries = shim_libraries();
  std::lock_guard<ForkMutex> lock(libraries.mutex);
  libraries.anchors.push_back(anchor);
  return true;
}

void promote_shim_libraries() {
  ShimLibraries& libraries = shim_libraries();
  std::lock_guard<ForkMutex> lock(libraries.mutex);
  for (; libraries.promoted < libraries.anchors.size(); ++libraries.promoted) {
    Dl_info info;
    if (!dladdr(libraries.anchors[libraries.promoted], &info) || !info.dli_fname) continue;
    // dlopen() of an open library only promotes its scope. The program itself is already in the
    // global scope; failing to open it by name is harmless. The handle is kept, since models bind
    // to the library.
    (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

std::vector<std::string> missing_shims(const std::vector<std::string>& imported) {
  std::vector<std::string> missing;
  for (const std::string& name : imported) {
    if (!dlsym(RTLD_DEFAULT, private_name(name).c_str())) missing.push_back(name);
  }
  return missing;
}

}  // namespace pteron::aoti
