#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/runtime/container/image.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace pteron::aoti {
namespace {

// A sealed file of `bytes` that exists in memory only.
Result<int> make_memory_file(const std::string& name, Span<const uint8_t> bytes) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = memfd_create(name.c_str(), flags | MFD_EXEC);
  if (file < 0 && errno == EINVAL) file = memfd_create(name.c_str(), flags);  // older kernels
  PTERON_CHECK_OR_RETURN(file >= 0, Error::OutOfResources, "memfd_create: %s",
                         std::strerror(errno));
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = write(file, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Error error = make_error(Error::OutOfResources, "writing %zu bytes of code to memory: %s",
                               bytes.size(), std::strerror(errno));
      close(file);
      return error;
    }
    written += static_cast<size_t>(n);
  }
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    Error error = make_error(Error::Internal, "sealing code in memory: %s", std::strerror(errno));
    close(file);
    return error;
  }
  return file;
}

// The system's loader knows objects by their path, and answers with an open one of equal path. The
// file stays open as long as the shared object, so its number is its own; the odd spelling is ours
// alone.
std::string path_of(int file) { return "/proc/self/./fd/" + std::to_string(file); }

// Whether the object itself defines what OpenMP's runtimes do, not one that it needs.
bool is_openmp_runtime(void* object, const std::string& path) {
  for (const char* name : {"omp_get_num_threads", "GOMP_parallel", "__kmpc_fork_call"}) {
    Dl_info info;
    void* const function = dlsym(object, name);
    if (function && dladdr(function, &info) && path == info.dli_fname) return true;
  }
  return false;
}

// A shared object that was linked with an OpenMP runtime brings it. Its threads wait in its code
// when they have nothing to do, also once the shared object is gone, so it stays.
void keep_openmp_runtimes() {
  std::vector<std::string> paths;  // the loader may be asked again only when it has told all
  const auto note = [](dl_phdr_info* info, size_t, void* data) {
    if (*info->dlpi_name) static_cast<std::vector<std::string>*>(data)->push_back(info->dlpi_name);
    return 0;
  };
  (void)dl_iterate_phdr(note, &paths);
  for (const std::string& path : paths) {
    void* const object = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!object) continue;
    if (is_openmp_runtime(object, path)) {
      (void)dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
    dlclose(object);
  }
}

}  // namespace

Result<std::vector<std::string>> make_imports_private(Span<uint8_t> bytes) {
  return rename_imports(bytes);
}

Result<Image> open_image(const std::string& name, Span<const uint8_t> bytes) {
  Image image;
  PTERON_ASSIGN_OR_RETURN(image.file, make_memory_file(name, bytes));
  image.handle = dlopen(path_of(image.file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image.handle) {
    const char* reason = dlerror();
    close(image.file);
    return make_error(Error::NotSupported, "the model's code cannot be opened: %s",
                      reason ? reason : "unknown reason");
  }
  keep_openmp_runtimes();
  return image;
}

void close_image(const Image& image) {
  dlclose(image.handle);
  // Code that was not compiled for unloading stays although it is closed. Its path must then stay
  // taken, or the next shared object of this path would be answered with the old one.
  if (void* pinned = dlopen(path_of(image.file).c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    dlclose(pinned);
    return;
  }
  close(image.file);
}

}  // namespace pteron::aoti
