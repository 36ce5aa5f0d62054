// A file that is written atomically.
//
//   PTERON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));   // fails early
//   PTERON_RETURN_IF_ERROR(file.write(bytes, nbytes));
//   PTERON_RETURN_IF_ERROR(file.commit());
//
// Written under a temporary name beside `path` and renamed by commit(); removed otherwise.
// Move-only.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron::runner {

class AtomicFile final {
 public:
  // AccessFailed: the location is not writable.
  static Result<AtomicFile> create(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  Error write(const void* data, size_t nbytes);
  Error commit();

 private:
  AtomicFile() = default;
  void discard();

  std::string path_;
  std::string temporary_path_;  // empty once committed
  std::FILE* stream_ = nullptr;
};

}  // namespace pteron::runner
