#include "pteron/backends/aoti/runtime/container/model_image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/shims/shim_library.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace pteron::aoti {
namespace {

// Images in use, by digest. Held while an image is opened, so that it is opened once.
struct LoadedImages {
  std::mutex mutex;
  std::map<Sha256Digest, std::weak_ptr<ModelImage>> by_digest;
};

LoadedImages& loaded_images() {
  static LoadedImages* images = new LoadedImages;
  return *images;
}

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
// file stays open as long as the image, so its number is its own; the odd spelling is ours alone.
std::string path_of(int file) { return "/proc/self/./fd/" + std::to_string(file); }

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

// An image that was linked with an OpenMP runtime brings it. Its threads wait in its code when they
// have nothing to do, also once the image is gone, so it stays.
void keep_openmp_runtimes() {
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libiomp5.so"}) {
    if (void* runtime = dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(runtime);
  }
}

}  // namespace

Result<std::shared_ptr<ModelImage>> ModelImage::load(Span<const uint8_t> bytes,
                                                     const Sha256Digest& digest) {
  const Sha256Digest found = sha256(bytes);
  PTERON_CHECK_OR_RETURN(found == digest, Error::InvalidProgram,
                         "the model's code is damaged: SHA-256 of its %zu bytes is %s, expected %s",
                         bytes.size(), to_hex(found).c_str(), to_hex(digest).c_str());
  LoadedImages& images = loaded_images();
  std::lock_guard<std::mutex> lock(images.mutex);
  if (auto known = images.by_digest.find(digest); known != images.by_digest.end()) {
    if (std::shared_ptr<ModelImage> image = known->second.lock()) return image;
    images.by_digest.erase(known);
  }

  std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  std::shared_ptr<ModelImage> image(new ModelImage);
  image->digest_ = digest;
  PTERON_ASSIGN_OR_RETURN(image->imported_, rename_imports(copy));
  promote_shim_libraries();
  const std::vector<std::string> missing = missing_shims(image->imported_);
  PTERON_CHECK_OR_RETURN(
      missing.empty(), Error::OperatorMissing,
      "the model calls %zu function%s that this runtime does not provide: %s. Lower it again for "
      "this runtime, or use one whose backend has them",
      missing.size(), missing.size() == 1 ? "" : "s", join(missing).c_str());

  PTERON_ASSIGN_OR_RETURN(image->file_,
                          make_memory_file("pteron_model_" + to_hex(digest).substr(0, 16), copy));
  image->handle_ = dlopen(path_of(image->file_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image->handle_) {
    const char* reason = dlerror();
    return make_error(Error::NotSupported, "the model's code cannot be opened: %s",
                      reason ? reason : "unknown reason");
  }
  keep_openmp_runtimes();
  images.by_digest[digest] = image;
  return image;
}

ModelImage::~ModelImage() {
  if (handle_) dlclose(handle_);
  if (file_ < 0) return;
  // Code that was not compiled for unloading stays although it is closed. Its path must then stay
  // taken, or the next image of this path would be answered with the old one.
  if (handle_) {
    if (void* pinned = dlopen(path_of(file_).c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(pinned);
      return;
    }
  }
  close(file_);
}

void* ModelImage::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace pteron::aoti
