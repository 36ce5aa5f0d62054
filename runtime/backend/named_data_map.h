// Named blobs from the program file and its data files.
//
//   PTERON_ASSIGN_OR_RETURN(Span<const uint8_t> code, map.get_verified(key));
//
// Every span points into a mapping of the file and stays valid as long as the Program; nothing is
// copied or read ahead. Thread-safe: immutable after load.
#pragma once

#include <cstdint>
#include <string_view>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

class NamedDataMap {
 public:
  virtual ~NamedDataMap() = default;

  // NotFound for an unknown key; the message has the number of keys.
  virtual Result<Span<const uint8_t>> get_data(std::string_view key) const = 0;

  // As get_data, after checking the bytes against the digest in the file's header (once per blob).
  // InvalidProgram when they differ. A file without digests (of another writer) passes.
  virtual Result<Span<const uint8_t>> get_verified(std::string_view key) const = 0;

  virtual size_t num_keys() const = 0;
  // Borrowed; keys are sorted. NotFound out of range.
  virtual Result<std::string_view> get_key(size_t index) const = 0;
};

}  // namespace pteron
