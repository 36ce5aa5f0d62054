// Which bytes of a program's files are the ones that were written.
//
//   ExternalDigests digests;
//   PTERON_RETURN_IF_ERROR(read_external_digests(map, own, &digests));
//   check_external_data(map, own, digests, required, &errors);
//
// Format: runtime/schema/README.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/platform/sha256.h"
#include "pteron/runtime/program_reader/data_map.h"
#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/file_layout.h"
#include "pteron/runtime/program_reader/segments.h"

namespace pteron {

// Named data of a program: the SHA-256 of each of its entries that are in data files.
inline constexpr std::string_view kExternalDigests = "external_sha256";

// By key, sorted; 32 bytes each. Both are borrowed from the program file.
using ExternalDigests = std::vector<std::pair<std::string_view, const uint8_t*>>;

// What the program (`own` are its segments) says of its external data; nothing in files of other
// writers. InvalidProgram: not that table, or not the bytes of its digest.
Error read_external_digests(const DataMap& map, const Segments& own, ExternalDigests* digests);

// AccessFailed: the file is not one of `allowed` (LoadOptions::allowed_files).
Error check_allowed(const FileLayout& layout, const std::vector<Sha256Digest>& allowed,
                    const std::string& name);

// Adds an InvalidExternalData for each entry of a data file that is not the one which the program
// names. Compares digests, and hashes data only of files without digests. `required`: entries that
// the program does not name are errors, too.
void check_external_data(const DataMap& map, const Segments& own, const ExternalDigests& digests,
                         bool required, ErrorList* errors);

// That each byte of the file is in its FlatBuffers part, in a segment, or a zero between them, and
// that there are digests of all. `code` is of the error.
Error check_every_byte(Span<const uint8_t> file, const FileLayout& layout, const Segments& segments,
                       Error::Code code);

// Segments::verify() of all of them, on all cores. All errors together.
Error verify_all(const std::vector<const Segments*>& files);

}  // namespace pteron
