// Options for opening a program file.
//
//   LoadOptions options;
//   options.data_paths = {"model.ptd"};
//   options.verification = Verification::Full;
//   options.allowed_backends.emplace();   // no native code from this file
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pteron/runtime/core/limits.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron {

// How much of the file is verified in advance. At every level, the layout, the digest of the
// FlatBuffers part (if any) and its structure are checked when the program is loaded, a method's
// semantics before that method is loaded, and code before it runs. At every level but Minimal, data
// files must be those whose digests the program names.
enum class Verification : uint8_t {
  Minimal,              // nothing else
  InternalConsistency,  // also the semantics of all methods, when the program is loaded
  Full,                 // also the digests of all segments, including weights: reads the whole file
  Required,  // also that each byte of each file has a digest: files without digests, bytes
             // between and after segments, and data that the program does not name are
             // errors
};

// The bytes of a file. With an `owner` and aligned to 16 they are used in place, and `owner` lives
// as long as the program; otherwise they are copied.
struct FileInMemory {
  Span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

struct LoadOptions {
  Verification verification = Verification::InternalConsistency;
  // Tensor-data files (.ptd) with the program's external data. Keys must be unique across all
  // files.
  std::vector<std::string> data_paths;
  // The same, in memory.
  std::vector<FileInMemory> data_files;
  // Backend ids allowed in the program's delegates; unset: all, empty: none. A program with another
  // one is an error before anything of a delegate is read. Most backends run native code from the
  // file, so use an empty list for untrusted files (SECURITY.md).
  std::optional<std::vector<std::string>> allowed_backends;
  // The files that may be loaded, program and data, by the SHA-256 of their FlatBuffers part, digests
  // of segments included (runtime/schema/README.md); unset: any. Another file is an error before
  // any code of it is opened, and `verification` is Required. trust/load_policy.h takes them from a
  // signature.
  std::optional<std::vector<Sha256Digest>> allowed_files;
  // Resource limits of the program and each of its methods.
  Limits limits;
};

}  // namespace pteron
