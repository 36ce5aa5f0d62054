#include "pteron/runtime/platform/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace pteron {
namespace {

// For smaller files, readahead of 2 MB pages would dominate the load time.
[[maybe_unused]] constexpr size_t kHugePagesNbytes = size_t{64} << 20;

class FileDescriptor final {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error failure(const char* what, const std::string& path, int error_number) {
  // Not strerror(), which is not thread-safe.
  const std::string reason = std::generic_category().message(error_number);
  return make_error(error_number == ENOENT ? Error::NotFound : Error::AccessFailed,
                    "cannot %s %s: %s", what, path.c_str(), reason.c_str());
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  PTERON_CHECK_OR_RETURN(path.find('\0') == std::string::npos, Error::NotFound,
                         "cannot open a path that goes on after %s and a NUL character",
                         path.c_str());
  // O_NONBLOCK opens a pipe without waiting for a writer; it is rejected below.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return failure("open", path, errno);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return failure("examine", path, errno);
  PTERON_CHECK_OR_RETURN(S_ISREG(status.st_mode), Error::AccessFailed,
                         "cannot map %s, which is no regular file: it is %s", path.c_str(),
                         S_ISDIR(status.st_mode)    ? "a folder"
                         : S_ISFIFO(status.st_mode) ? "a pipe; give the bytes that come out of it"
                                                    : "something special");
  if (status.st_size == 0) return MappedFile();
  const size_t nbytes = static_cast<size_t>(status.st_size);
  void* const data = ::mmap(nullptr, nbytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return failure("map", path, errno);
#ifdef MADV_HUGEPAGE
  // Requests huge pages for file reads, if the file system supports them: weights are then read
  // faster in every run. Only a hint.
  if (nbytes >= kHugePagesNbytes) (void)::madvise(data, nbytes, MADV_HUGEPAGE);
#endif
  return MappedFile(static_cast<const uint8_t*>(data), nbytes);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<uint8_t*>(data_), nbytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), nbytes_(std::exchange(other.nbytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(nbytes_, other.nbytes_);
  return *this;
}

}  // namespace pteron
