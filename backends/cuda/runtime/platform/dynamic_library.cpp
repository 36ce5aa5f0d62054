#include "pteron/backends/cuda/runtime/platform/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cuda {
namespace {

std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PTERON_CUDA_LIBRARY_PATH")) {
    std::string rest(path);
    while (!rest.empty()) {
      const size_t colon = rest.find(':');
      std::string folder = rest.substr(0, colon);
      if (!folder.empty()) folders.push_back(std::move(folder));
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open(const std::string& soname) {
  std::vector<std::string> candidates = {soname};
  for (const std::string& folder : search_folders()) candidates.push_back(folder + "/" + soname);
  std::string tried;
  static ForkMutex mutex;  // fork() is not to come while something is opened
  const std::lock_guard<ForkMutex> lock(mutex);
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return DynamicLibrary(handle, soname);
    }
    const char* reason = dlerror();
    tried += "\n  " + candidate + ": " + (reason ? reason : "unknown");
  }
  return make_error(Error::NotFound,
                    "%s could not be opened; put its folder on PTERON_CUDA_LIBRARY_PATH. Tried:%s",
                    soname.c_str(), tried.c_str());
}

Result<void*> DynamicLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  PTERON_CHECK_OR_RETURN(address != nullptr, Error::NotFound, "%s has no function %s",
                         soname_.c_str(), name);
  return address;
}

}  // namespace pteron::cuda
