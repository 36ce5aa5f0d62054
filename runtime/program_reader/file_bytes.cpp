#include "pteron/runtime/program_reader/file_bytes.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "pteron/runtime/program_reader/file_layout.h"

namespace pteron {

Result<FileBytes> FileBytes::map(const std::string& path) {
  PTERON_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  FileBytes file;
  file.mapping_ = std::move(mapping);
  file.bytes_ = file.mapping_.bytes();
  file.name_ = path;
  file.path_ = path;
  return file;
}

Result<FileBytes> FileBytes::from_memory(const FileInMemory& source, const std::string& name,
                                         LoadBudget& budget) {
  const Span<const uint8_t> bytes = source.bytes;
  FileBytes file;
  file.name_ = name;
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kFileAlignment == 0;
  if (bytes.empty() || (source.owner && aligned)) {
    file.bytes_ = bytes;
    file.owner_ = source.owner;
    return file;
  }
  PTERON_RETURN_IF_ERROR(budget.take(bytes.size(), name.c_str()));
  // Rounded up, as aligned_alloc requires.
  const size_t nbytes = (bytes.size() + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
  void* const copy = std::aligned_alloc(kFileAlignment, nbytes);
  PTERON_CHECK_OR_RETURN(copy, Error::MemoryAllocationFailed,
                         "no memory for a copy of a %s of %zu bytes", name.c_str(), bytes.size());
  file.owner_ =
      std::shared_ptr<const void>(copy, [](const void* p) { std::free(const_cast<void*>(p)); });
  std::memcpy(copy, bytes.data(), bytes.size());
  file.bytes_ = {static_cast<const uint8_t*>(copy), bytes.size()};
  return file;
}

}  // namespace pteron
