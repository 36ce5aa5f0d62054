// Not executed yet: type-checked only (backends/apple/metal/runtime/darwin/tests).
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pteron/backends/aoti/runtime/container/image.h"

namespace pteron::aoti {
namespace {

Error write_all(int file, Span<const uint8_t> bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = write(file, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    PTERON_CHECK_OR_RETURN(n > 0, Error::OutOfResources, "writing %zu bytes of code: %s",
                           bytes.size(), std::strerror(errno));
    written += static_cast<size_t>(n);
  }
  return Error::Ok;
}

}  // namespace

// The linker wrote private names: a signature forbids changes. The system's loader names what is
// missing.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t>) {
  return std::vector<std::string>();
}

// There are no files in memory: it has a name, for its owner alone, until it is open.
Result<Image> open_image(const std::string& name, Span<const uint8_t> bytes) {
  const char* const folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/" + name + ".XXXXXX";
  const int file = mkstemp(path.data());
  PTERON_CHECK_OR_RETURN(file >= 0, Error::OutOfResources, "a file for code, %s: %s", path.c_str(),
                         std::strerror(errno));
  Error error = write_all(file, bytes);
  close(file);
  Image image;
  if (error.ok()) {
    image.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!image.handle) {
      const char* const reason = dlerror();
      error = make_error(Error::NotSupported, "the model's code cannot be opened: %s",
                         reason ? reason : "unknown reason");
    }
  }
  unlink(path.c_str());
  PTERON_RETURN_IF_ERROR(std::move(error));
  return image;
}

void close_image(const Image& image) { dlclose(image.handle); }

}  // namespace pteron::aoti
