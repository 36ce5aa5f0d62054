#include "pteron/backends/aoti/runtime/container/image_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "pteron/runtime/core/catch_exceptions.h"

namespace pteron::aoti {
namespace {

Error failure(const char* what, const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  return make_error(Error::AccessFailed, "%s %s: %s", what, path.c_str(), reason.c_str());
}

}  // namespace

Error write_all(int file, Span<const uint8_t> bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = write(file, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failure("writing", std::to_string(bytes.size()) + " bytes of code");
    written += static_cast<size_t>(n);
  }
  return Error::Ok;
}

Result<void*> open_library(const std::string& path) {
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* const reason = dlerror();
  return make_error(Error::NotSupported, "%s", reason ? reason : "dlopen: unknown reason");
}

const char* kept_code_folder() {
  const char* const folder = std::getenv("PTERON_CODE_FOLDER");
  return folder && *folder ? folder : nullptr;
}

Result<void*> open_through_file(const std::string& name, Span<const uint8_t> bytes,
                                std::string* path) {
  const char* const kept = kept_code_folder();
  const char* const parent = kept ? kept : std::getenv("TMPDIR");
  std::string folder = std::string(parent && *parent ? parent : "/tmp") + "/pteron.XXXXXX";
  path->reserve(folder.size() + 1 + name.size());  // once there is a folder, nothing may throw
  if (!mkdtemp(folder.data())) return failure("making a folder for code,", folder);
  path->assign(folder).append("/").append(name);
  Result<void*> handle = catch_exceptions([&]() -> Result<void*> {
    const int file = open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return failure("making", *path);
    Error error = write_all(file, bytes);
    if (close(file) != 0 && error.ok()) error = failure("writing", *path);
    PTERON_RETURN_IF_ERROR(std::move(error));
    return open_library(*path);
  });
  if (kept && handle.ok()) return handle;
  unlink(path->c_str());
  rmdir(folder.c_str());
  return handle;
}

}  // namespace pteron::aoti
