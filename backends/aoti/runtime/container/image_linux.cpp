#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/runtime/container/image.h"
#include "pteron/backends/aoti/runtime/container/image_file.h"
#include "pteron/runtime/core/catch_exceptions.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace pteron::aoti {
namespace {

Error failure(const char* what) {
  return make_error(Error::NotSupported, "%s: %s", what,
                    std::generic_category().message(errno).c_str());
}

// The loader identifies objects by path and by inode, and returns an open object if either matches.
// Descriptor numbers are reused, so the path also encodes a counter in binary, "/" for 0 and "./"
// for 1, which do not change its meaning. The counter is prefixed by an address in this library,
// which a process may load twice.
std::string path_of(int file) {
  static std::atomic<uint64_t> count{0};
  std::string path = "/proc/thread-self/fd/";
  const auto add = [&path](uint64_t number, int bits) {
    for (int bit = 0; bit < bits; ++bit) path += number >> bit & 1 ? "./" : "/";
  };
  add(reinterpret_cast<uintptr_t>(&count) / sizeof(count), 61);
  add(count.fetch_add(1, std::memory_order_relaxed), 64);
  return path + std::to_string(file);
}

// Opens a sealed memfd of `bytes`.
Result<void*> open_through_memory(const std::string& name, Span<const uint8_t> bytes,
                                  std::string* path) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file = memfd_create(name.c_str(), flags | MFD_EXEC);
  if (file < 0 && errno == EINVAL) file = memfd_create(name.c_str(), flags);  // older kernels
  if (file < 0) return failure("memfd_create");
  Result<void*> handle = catch_exceptions([&]() -> Result<void*> {
    PTERON_RETURN_IF_ERROR(write_all(file, bytes));
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (fcntl(file, F_ADD_SEALS, seals) != 0) return failure("sealing");
    *path = path_of(file);
    return open_library(*path);
  });
  close(file);
  return handle;
}

// Verifies that the loaded object is what was written: another thread may have closed and reused
// the descriptor meanwhile.
Result<void*> checked(Result<void*> handle, const std::string& path, Span<const uint8_t> bytes) {
  if (!handle.ok()) return handle;
  const auto is_it = [&](dl_phdr_info* info) {
    return path == info->dlpi_name &&
           is_mapped_at(bytes, info->dlpi_addr, {info->dlpi_phdr, info->dlpi_phnum});
  };
  const auto look = [](dl_phdr_info* info, size_t, void* data) -> int {
    return (*static_cast<decltype(is_it)*>(data))(info);
  };
  if (dl_iterate_phdr(look, const_cast<void*>(static_cast<const void*>(&is_it)))) return handle;
  dlclose(*handle);
  return make_error(Error::NotSupported, "the system's loader opened something else");
}

// Whether the object itself, not a dependency, defines the functions of an OpenMP runtime.
bool is_openmp_runtime(void* object, const std::string& path) {
  for (const char* name : {"omp_get_num_threads", "GOMP_parallel", "__kmpc_fork_call"}) {
    Dl_info info;
    void* const function = dlsym(object, name);
    if (function && dladdr(function, &info) && path == info.dli_fname) return true;
  }
  return false;
}

// The object brought an OpenMP runtime as a dependency. Its idle threads run that library's code,
// so it is never unloaded.
Error keep_openmp_runtimes() {
  std::vector<std::string>
      paths;  // the iteration must finish before the loader can be called again
  const auto note = [](dl_phdr_info* info, size_t, void* data) -> int {
    const Error error = catch_exceptions([&]() -> Error {  // the loader is C
      static_cast<std::vector<std::string>*>(data)->push_back(info->dlpi_name);
      return Error::Ok;
    });
    return error.ok() ? 0 : error.code();
  };
  if (dl_iterate_phdr(note, &paths) != 0) return Error::MemoryAllocationFailed;
  for (const std::string& path : paths) {
    if (path.empty()) continue;  // the program itself
    void* const object = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!object) continue;
    if (is_openmp_runtime(object, path)) {
      (void)dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
    dlclose(object);
  }
  return Error::Ok;
}

}  // namespace

Result<std::vector<std::string>> make_imports_private(Span<uint8_t> bytes) {
  return rename_imports(bytes);
}

Result<void*> open_image(const std::string& name, Span<const uint8_t> bytes) {
  std::string path;
  const bool is_kept = kept_code_folder() != nullptr;
  Result<void*> handle =
      is_kept ? open_through_file(name, bytes, &path) : open_through_memory(name, bytes, &path);
  handle = checked(std::move(handle), path, bytes);
  if (is_kept && !handle.ok()) return handle;
  if (!handle.ok()) {
    const std::string in_memory = handle.error().message();
    handle = checked(open_through_file(name, bytes, &path), path, bytes);
    PTERON_CHECK_OR_RETURN(
        handle.ok(), Error::NotSupported,
        "the model's code cannot be opened, neither from memory (%s) nor from a file (%s). Where a "
        "policy is the reason, allow memory files that are executable (sysctl vm.memfd_noexec) or "
        "set TMPDIR to a folder that this user may write to and execute from (no noexec mount)",
        in_memory.c_str(), handle.error().message().c_str());
  }
  if (Error error = catch_exceptions(keep_openmp_runtimes); !error.ok()) {
    dlclose(*handle);
    return error;
  }
  return handle;
}

}  // namespace pteron::aoti
