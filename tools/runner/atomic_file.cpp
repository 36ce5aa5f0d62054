#include "pteron/tools/runner/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace pteron::runner {
namespace {

Error failure(const std::string& path) {
  return make_error(Error::AccessFailed, "cannot write %s: %s", path.c_str(), std::strerror(errno));
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  struct stat found;
  PTERON_CHECK_OR_RETURN(stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode),
                         Error::AccessFailed, "cannot write %s: it is no regular file",
                         path.c_str());
  AtomicFile file;
  file.path_ = path;
  std::string temporary = path + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return failure(path);
  file.temporary_path_ = temporary;
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, 0666 & ~mask) != 0 || !(file.stream_ = fdopen(descriptor, "wb"))) {
    Error error = failure(path);
    close(descriptor);
    return error;
  }
  return file;
}

AtomicFile::~AtomicFile() { discard(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  temporary_path_ = std::exchange(other.temporary_path_, {});
  stream_ = std::exchange(other.stream_, nullptr);
  return *this;
}

Error AtomicFile::write(const void* data, size_t nbytes) {
  if (nbytes > 0 && std::fwrite(data, 1, nbytes, stream_) != nbytes) return failure(path_);
  return Error::Ok;
}

Error AtomicFile::commit() {
  const bool closed = std::fclose(std::exchange(stream_, nullptr)) == 0;
  if (!closed || std::rename(temporary_path_.c_str(), path_.c_str()) != 0) return failure(path_);
  temporary_path_.clear();
  return Error::Ok;
}

void AtomicFile::discard() {
  if (stream_) std::fclose(std::exchange(stream_, nullptr));
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
  temporary_path_.clear();
}

}  // namespace pteron::runner
