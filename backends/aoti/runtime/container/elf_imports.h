// Checks what a shared object in memory imports, and renames its undefined symbols to private names.
//
//   std::vector<uint8_t> copy(object.begin(), object.end());
//   PTERON_ASSIGN_OR_RETURN(std::vector<std::string> imported, rename_imports(copy));
//
// Undefined symbols are in no hash table, and the new names have the same length
// (shims/private_names.h), so only bytes of the dynamic string table change.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// Renames in place every undefined symbol that has a row in the table of private names, except
// versioned symbols: shared objects linked with libgomp keep it. Removes run paths. Returns the old
// names, sorted. InvalidProgram: not an ELF shared object for this machine, a reference outside the
// bytes, or a string that has another use too; an import that is not in shims/system_imports.inc, an
// executable stack, text relocations, or memory that is writable and executable. `object` is then
// unchanged. Never reads outside `object`.
Result<std::vector<std::string>> rename_imports(Span<uint8_t> object);

// Whether the shared object loaded at `base` with program headers `headers` has the read-only bytes
// (code, symbols) of `object`.
bool is_mapped_at(Span<const uint8_t> object, uintptr_t base, Span<const Elf64_Phdr> headers);

}  // namespace pteron::aoti
