#include "pteron/runtime/program_reader/file_layout.h"

#include <cctype>
#include <cstring>

#include "pteron/runtime/platform/sha256.h"

namespace pteron {
namespace {

// Minimum size: identifier and header are probed in the first bytes.
constexpr size_t kProbeNbytes = 64;
// FlatBuffers offsets are signed 32-bit.
constexpr uint64_t kMaxFlatbufferNbytes = 0x7fffffff;
constexpr size_t kDigestNbytes = 32;
// "PTI1", count, digest of the FlatBuffers part.
constexpr uint64_t kIntegrityHeadNbytes = 8 + kDigestNbytes;

struct KindTraits {
  const char* what;
  const char* family;      // first half of the identifier
  const char* identifier;  // the version we read
  const char* header_magic;
  uint32_t min_header_nbytes;
  uint32_t header_nbytes;  // of all known fields; the integrity table follows
  Error::Code code;
};

constexpr KindTraits kProgram = {"a program file",     "ET", "ET12", "eh00", 24, 32,
                                 Error::InvalidProgram};
constexpr KindTraits kTensorData = {"a tensor-data file",      "FT", "FT01", "FH01", 40, 40,
                                    Error::InvalidExternalData};

template <typename T>
T load(Span<const uint8_t> file, size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

bool has_text(Span<const uint8_t> file, uint64_t offset, const char* text) {
  const size_t length = std::strlen(text);
  return offset + length <= file.size() && std::memcmp(file.data() + offset, text, length) == 0;
}

// Four bytes as text, for messages.
std::string quoted(Span<const uint8_t> file, size_t offset) {
  std::string text = "\"";
  for (size_t i = offset; i < offset + 4; ++i) {
    text += file[i] >= 0x20 && file[i] < 0x7f ? static_cast<char>(file[i]) : '?';
  }
  return text + "\"";
}

Error check_identifier(Span<const uint8_t> file, const KindTraits& kind) {
  if (has_text(file, 4, kind.identifier)) return Error::Ok;
  if (has_text(file, 4, kind.family) && std::isdigit(file[6]) && std::isdigit(file[7])) {
    return make_error(
        kind.code,
        "its format is %s, this runtime reads %s; write the file with a matching version",
        quoted(file, 4).c_str(), kind.identifier);
  }
  return make_error(kind.code, "not %s: its identifier is %s, expected \"%s\"", kind.what,
                    quoted(file, 4).c_str(), kind.identifier);
}

// Start of the integrity table, after the header's known fields.
uint64_t integrity_offset(const KindTraits& kind) { return 8 + uint64_t{kind.header_nbytes}; }

// Digest of the FlatBuffers part with the table's digests zeroed.
Sha256Digest digest_of(Span<const uint8_t> flatbuffer, uint64_t table, uint64_t num_digests) {
  static const uint8_t kZeros[kDigestNbytes] = {};
  Sha256 hash;
  hash.update({flatbuffer.data(), static_cast<size_t>(table + 8)});
  for (uint64_t i = 0; i <= num_digests; ++i) hash.update({kZeros, kDigestNbytes});
  const size_t end =
      static_cast<size_t>(table + kIntegrityHeadNbytes + kDigestNbytes * num_digests);
  hash.update({flatbuffer.data() + end, flatbuffer.size() - end});
  return hash.finish();
}

Error read_integrity_table(Span<const uint8_t> file, const KindTraits& kind, uint32_t header_nbytes,
                           FileLayout* layout) {
  const uint64_t table = integrity_offset(kind);
  const uint64_t table_nbytes = header_nbytes - kind.header_nbytes;
  PTERON_CHECK_OR_RETURN(table_nbytes >= kIntegrityHeadNbytes && has_text(file, table, "PTI1"),
                         kind.code,
                         "its header has %u bytes that are no integrity table; the file is damaged "
                         "or newer than this runtime",
                         static_cast<unsigned>(table_nbytes));
  const uint32_t count = load<uint32_t>(file, table + 4);
  const uint64_t expected_nbytes = kIntegrityHeadNbytes + kDigestNbytes * uint64_t{count};
  // The header's length may include its padding.
  PTERON_CHECK_OR_RETURN(
      table_nbytes >= expected_nbytes && table_nbytes < expected_nbytes + kFileAlignment, kind.code,
      "its integrity table has %u bytes, which does not fit %u segments; the file is damaged",
      static_cast<unsigned>(table_nbytes), count);
  const Sha256Digest found = digest_of(layout->flatbuffer, table, count);
  PTERON_CHECK_OR_RETURN(
      std::memcmp(found.data(), file.data() + table + 8, kDigestNbytes) == 0, kind.code,
      "its FlatBuffers part differs from its digest; the file is damaged, write it again");
  layout->has_integrity_table = true;
  layout->num_digests = count;
  layout->segment_digests = file.data() + table + kIntegrityHeadNbytes;
  return Error::Ok;
}

// Contents of both headers: the end of the FlatBuffers part, and the location of segments.
struct Extents {
  uint64_t flatbuffer_nbytes = 0;
  uint64_t segment_base = 0;
  uint64_t segment_nbytes = 0;  // 0: unknown or none
};

Result<Extents> read_extents(Span<const uint8_t> file, FileKind kind, uint32_t header_nbytes) {
  Extents extents;
  if (kind == FileKind::Program) {
    extents.flatbuffer_nbytes = load<uint64_t>(file, 16);
    extents.segment_base = load<uint64_t>(file, 24);
    if (header_nbytes >= 32) extents.segment_nbytes = load<uint64_t>(file, 32);
    return extents;
  }
  // The size excludes the header; the offset is the header's length.
  if (__builtin_add_overflow(load<uint64_t>(file, 16), load<uint64_t>(file, 24),
                             &extents.flatbuffer_nbytes)) {
    return make_error(Error::InvalidExternalData, "the FlatBuffers part of its header overflows");
  }
  extents.segment_base = load<uint64_t>(file, 32);
  extents.segment_nbytes = load<uint64_t>(file, 40);
  return extents;
}

Error check_extents(Span<const uint8_t> file, const KindTraits& kind, uint32_t header_nbytes,
                    const Extents& extents) {
  using ull = unsigned long long;
  PTERON_CHECK_OR_RETURN(
      extents.flatbuffer_nbytes <= file.size(), kind.code,
      "it has %zu bytes, its FlatBuffers part alone should have %llu; the file is "
      "truncated",
      file.size(), static_cast<ull>(extents.flatbuffer_nbytes));
  PTERON_CHECK_OR_RETURN(uint64_t{header_nbytes} + 8 <= extents.flatbuffer_nbytes, kind.code,
                         "its header of %u bytes is longer than its FlatBuffers part of %llu",
                         header_nbytes, static_cast<ull>(extents.flatbuffer_nbytes));
  if (extents.segment_base == 0) {
    PTERON_CHECK_OR_RETURN(extents.segment_nbytes == 0, kind.code,
                           "its header counts %llu bytes of segments and does not say where",
                           static_cast<ull>(extents.segment_nbytes));
    return Error::Ok;
  }
  PTERON_CHECK_OR_RETURN(extents.segment_base >= extents.flatbuffer_nbytes, kind.code,
                         "its segments begin at %llu, within the FlatBuffers part of %llu bytes",
                         static_cast<ull>(extents.segment_base),
                         static_cast<ull>(extents.flatbuffer_nbytes));
  PTERON_CHECK_OR_RETURN(extents.segment_base <= file.size() &&
                             extents.segment_nbytes <= file.size() - extents.segment_base,
                         kind.code,
                         "it has %zu bytes, its header asks for %llu + %llu; the file is truncated",
                         file.size(), static_cast<ull>(extents.segment_base),
                         static_cast<ull>(extents.segment_nbytes));
  return Error::Ok;
}

Result<FileLayout> read(Span<const uint8_t> file, FileKind file_kind) {
  const KindTraits& kind = file_kind == FileKind::Program ? kProgram : kTensorData;
  PTERON_CHECK_OR_RETURN(file.size() >= kProbeNbytes, kind.code,
                         "%zu bytes are too few for %s; the file is truncated", file.size(),
                         kind.what);
  PTERON_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(file.data()) % kFileAlignment == 0,
                         Error::InvalidArgument, "its bytes are not at a multiple of %zu",
                         kFileAlignment);
  PTERON_RETURN_IF_ERROR(check_identifier(file, kind));

  FileLayout layout;
  uint32_t header_nbytes = 0;
  if (has_text(file, 8, kind.header_magic)) {
    header_nbytes = load<uint32_t>(file, 12);
    PTERON_CHECK_OR_RETURN(header_nbytes >= kind.min_header_nbytes, kind.code,
                           "its header has %u bytes, expected at least %u", header_nbytes,
                           kind.min_header_nbytes);
    PTERON_ASSIGN_OR_RETURN(const Extents extents, read_extents(file, file_kind, header_nbytes));
    PTERON_RETURN_IF_ERROR(check_extents(file, kind, header_nbytes, extents));
    layout.flatbuffer = {file.data(), static_cast<size_t>(extents.flatbuffer_nbytes)};
    layout.has_segments = extents.segment_base != 0;
    layout.segment_base = extents.segment_base;
    layout.segments_end = extents.segment_base + extents.segment_nbytes;
  } else {
    // A program without segments may have no header; its FlatBuffers part is the whole file.
    PTERON_CHECK_OR_RETURN(file_kind == FileKind::Program, kind.code,
                           "its header begins with %s, expected \"%s\"", quoted(file, 8).c_str(),
                           kind.header_magic);
    layout.flatbuffer = file;
  }
  PTERON_CHECK_OR_RETURN(layout.flatbuffer.size() < kMaxFlatbufferNbytes, kind.code,
                         "its FlatBuffers part has %zu bytes, at most %llu are possible",
                         layout.flatbuffer.size(),
                         static_cast<unsigned long long>(kMaxFlatbufferNbytes));

  if (header_nbytes > kind.header_nbytes) {
    PTERON_RETURN_IF_ERROR(read_integrity_table(file, kind, header_nbytes, &layout));
  } else {
    PTERON_CHECK_OR_RETURN(!has_text(file, integrity_offset(kind), "PTI1"), kind.code,
                           "it has an integrity table that its header does not cover; the file is "
                           "damaged");
  }
  return layout;
}

}  // namespace

Result<FileLayout> read_file_layout(Span<const uint8_t> file, FileKind kind,
                                    const std::string& name) {
  Result<FileLayout> layout = read(file, kind);
  if (!layout.ok()) return layout.take_error().with_context(name);
  return layout;
}

}  // namespace pteron
