// The segments of a file and their digests.
//
//   PTERON_RETURN_IF_ERROR(segments.verify(3));
//   use(segments.bytes(3));
//
// Borrows the file's bytes. Thread-safe after construction; only verify() reads the bytes.
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
  // All ranges are within `file`. `digests` has 32 bytes per range, or is null.
  Segments(Span<const uint8_t> file, std::vector<Range> ranges, const uint8_t* digests,
           std::string file_name);

  size_t size() const { return ranges_.size(); }
  const Range& range(size_t index) const { return ranges_[index]; }
  Span<const uint8_t> bytes(size_t index) const {
    return {file_.data() + ranges_[index].offset, static_cast<size_t>(ranges_[index].nbytes)};
  }
  const std::string& file_name() const { return file_name_; }

  // Checks the bytes against their digest, once per object; later and concurrent calls return the
  // same result. InvalidProgram on a mismatch. Ok for a file without digests.
  Error verify(size_t index) const;

  // As hex; empty without one.
  std::string digest(size_t index) const;
  // 32 bytes, of the file's table; null without one.
  const uint8_t* digest_bytes(size_t index) const {
    return digests_ ? digests_ + 32 * index : nullptr;
  }

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
