// A read-only memory-mapped file.
//
//   PTERON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open("model.pte"));
//   parse(file.bytes());   // page-aligned; pages are read on access
//
// Move-only; unmapped on destruction. Bytes may be read by any thread. Writing to the mapping is a
// fault; so is reading beyond the end after the file was truncated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

class MappedFile final {
 public:
  // Maps the whole file. NotFound: no file at `path`; AccessFailed: it cannot be opened or mapped,
  // or is not a regular file. An empty file gives an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;  // empty
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Span<const uint8_t> bytes() const { return {data_, nbytes_}; }

 private:
  MappedFile(const uint8_t* data, size_t nbytes) : data_(data), nbytes_(nbytes) {}

  const uint8_t* data_ = nullptr;
  size_t nbytes_ = 0;
};

}  // namespace pteron
