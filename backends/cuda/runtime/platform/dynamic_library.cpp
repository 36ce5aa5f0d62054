#include "pteron/backends/cuda/runtime/platform/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cuda {
namespace {

// Bazel's runfiles: from the environment, beside the program, or around this library if Python
// opened it (tools/build/names.bzl).
std::vector<std::string> runfiles() {
  std::vector<std::string> roots;
  if (const char* root = std::getenv("RUNFILES_DIR")) roots.emplace_back(root);
  std::error_code unreadable;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", unreadable).string();
  if (!program.empty()) roots.push_back(program + ".runfiles");
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&runfiles), &own) && own.dli_fname) {
    const std::string path = own.dli_fname;
    const size_t end = path.find("/_pteron_py/");
    if (end != std::string::npos) roots.push_back(path.substr(0, end));
  }
  return roots;
}

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
  // third_party/cuda/libraries.bzl
  for (const std::string& root : runfiles()) folders.push_back(root + "/_pteron_cuda");
  return folders;
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open(const std::string& soname) {
  std::vector<std::string> candidates = {soname};
  for (const std::string& folder : search_folders()) candidates.push_back(folder + "/" + soname);
  std::string tried;
  static ForkMutex mutex;  // excludes fork() while a library is opened
  const std::lock_guard<ForkMutex> lock(mutex);
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return DynamicLibrary(handle, soname);
    }
    const char* reason = dlerror();
    tried += "\n  " + candidate + ": " + (reason ? reason : "unknown");
  }
  return make_error(
      Error::NotFound,
      "%s could not be opened; put its folder on PTERON_CUDA_LIBRARY_PATH. (Bazel brings "
      "cuBLAS, cuDNN and nvrtc: //third_party/cuda:libraries_at_run_time.) Tried:%s",
      soname.c_str(), tried.c_str());
}

Result<void*> DynamicLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  PTERON_CHECK_OR_RETURN(address != nullptr, Error::NotFound, "%s has no function %s",
                         soname_.c_str(), name);
  return address;
}

}  // namespace pteron::cuda
