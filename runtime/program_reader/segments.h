// The data parts of one file, and the digests that vouch for them.
//
//   PTERON_RETURN_IF_ERROR(segments.verify(3));
//   use(segments.bytes(3));
//
// Borrows the file's bytes. Thread-safe once built; nothing reads the bytes except verify().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

class Segments final {
 public:
  struct Range {
    uint64_t offset = 0;  // in bytes, from the start of the file
    uint64_t nbytes = 0;
  };

  Segments() = default;
  // All ranges lie within `file`. `digests` holds 32 bytes for each range, or is null.
  Segments(Span<const uint8_t> file, std::vector<Range> ranges, const uint8_t* digests,
           std::string file_name);

  size_t size() const { return ranges_.size(); }
  const Range& range(size_t index) const { return ranges_[index]; }
  Span<const uint8_t> bytes(size_t index) const {
    return {file_.data() + ranges_[index].offset, static_cast<size_t>(ranges_[index].nbytes)};
  }
  const std::string& file_name() const { return file_name_; }

  // Checks the bytes against their digest, once in the life of this object; later calls, and calls
  // that arrive meanwhile on other threads, get the same answer. InvalidProgram when they differ.
  // Ok for a file without digests.
  Error verify(size_t index) const;

  // As hex; empty without one.
  std::string digest(size_t index) const;

 private:
  struct Verdict {
    std::once_flag once;
    bool good = false;
  };

  Span<const uint8_t> file_;
  std::vector<Range> ranges_;
  const uint8_t* digests_ = nullptr;
  std::string file_name_;
  std::unique_ptr<Verdict[]> verdicts_;
};

}  // namespace pteron
