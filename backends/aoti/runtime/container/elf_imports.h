// The undefined names of a shared object in memory, made private.
//
//   std::vector<uint8_t> copy(object.begin(), object.end());
//   PTERON_ASSIGN_OR_RETURN(std::vector<std::string> imported, rename_imports(copy));
//
// Undefined symbols are in no hash table, and the new names are as long as the old ones
// (shims/private_names.h), so bytes of the dynamic string table are all that changes.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Renames in place every undefined symbol that the table of private names has a row for, less those
// that name a library's version: shared objects that were linked with libgomp keep it. Returns
// their old names, sorted. InvalidProgram: not an ELF shared object for this machine, anything that
// points outside the bytes, or a string that is shared with another use; `object` is then
// unchanged. Reads nothing outside `object`, whatever it contains.
Result<std::vector<std::string>> rename_imports(Span<uint8_t> object);

// Whether the shared object that is loaded at `base`, with program headers `headers`, has the
// read-only bytes (code, symbols) of `object`.
bool is_mapped_at(Span<const uint8_t> object, uintptr_t base, Span<const Elf64_Phdr> headers);

}  // namespace pteron::aoti
