// The layout of a program or data file: identifier, extended header, integrity table.
//
//   PTERON_ASSIGN_OR_RETURN(FileLayout layout,
//                           read_file_layout(bytes, FileKind::Program, "a.pte"));
//   flatbuffers::Verifier verifier(layout.flatbuffer.data(), layout.flatbuffer.size());
//
// Format: runtime/schema/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

// Required alignment of a file in memory, since its contents are used in place.
inline constexpr size_t kFileAlignment = 16;

enum class FileKind { Program, TensorData };

struct FileLayout {
  Span<const uint8_t> flatbuffer;  // from the first byte of the file, header included
  bool has_segments = false;       // the file has a segment base
  uint64_t segment_base = 0;       // in bytes, from the start of the file
  uint64_t segments_end = 0;       // likewise; segment_base if the header does not say
  bool has_integrity_table = false;
  uint32_t num_digests = 0;                  // of segments
  const uint8_t* segment_digests = nullptr;  // num_digests times 32 bytes
};

// Locates and validates the parts, and checks the FlatBuffers part against its digest, if any.
// InvalidProgram (InvalidExternalData for a data file) says what was found and expected. `file`
// must be aligned to kFileAlignment; `name` is for messages.
Result<FileLayout> read_file_layout(Span<const uint8_t> file, FileKind kind,
                                    const std::string& name);

}  // namespace pteron
