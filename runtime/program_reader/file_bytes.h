// The bytes of a file: mapped, borrowed with an owner, or copied.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/platform/mapped_file.h"
#include "pteron/runtime/program_reader/load_options.h"

namespace pteron {

// Move-only. bytes() are aligned to kFileAlignment and live as long as this object.
class FileBytes final {
 public:
  static Result<FileBytes> map(const std::string& path);
  // Used in place if there is an owner and they are aligned, otherwise copied.
  // MemoryAllocationFailed, also if `budget` is exceeded.
  static Result<FileBytes> from_memory(const FileInMemory& file, const std::string& name,
                                       LoadBudget& budget);

  FileBytes() = default;

  Span<const uint8_t> bytes() const { return bytes_; }
  // Name for messages: the path, or "program in memory".
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }  // empty when not mapped

 private:
  Span<const uint8_t> bytes_;
  MappedFile mapping_;
  std::shared_ptr<const void> owner_;
  std::string name_;
  std::string path_;
};

}  // namespace pteron
