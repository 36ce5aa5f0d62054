// How a program file is opened.
//
//   LoadOptions options;
//   options.data_paths = {"model.ptd"};
//   options.verification = Verification::Full;
//   options.allowed_backends.emplace();   // no native code comes from this file
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pteron/runtime/core/limits.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

// How much of the file is checked before anything is done with it. At every level the layout,
// the digest of the FlatBuffers part (if the file has one) and its structure are checked when the
// program is loaded, a method's meaning before that method is loaded, and code before it is run.
enum class Verification : uint8_t {
  Minimal,              // no more than that
  InternalConsistency,  // the meaning of all methods, when the program is loaded
  Full,                 // and the digests of all segments, weights included: reads the whole file
};

// The bytes of a file: with an `owner`, those at a multiple of 16 are used in place and `owner` is
// kept as long as the program; otherwise they are copied.
struct FileInMemory {
  Span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

struct LoadOptions {
  Verification verification = Verification::InternalConsistency;
  // Tensor-data files (.ptd) that hold what the program refers to by name. Keys must differ among
  // all.
  std::vector<std::string> data_paths;
  // Such files in memory.
  std::vector<FileInMemory> data_files;
  // Ids of the backends that the program's delegates may have; unset: all, empty: none. A program
  // with another one is refused before anything of a delegate is read. Most backends run native
  // code from the file, so a file from somebody untrusted wants an empty list (SECURITY.md).
  std::optional<std::vector<std::string>> allowed_backends;
  // What the program and each of its methods may use.
  Limits limits;
};

}  // namespace pteron
