#include "pteron/backends/aoti/runtime/container/elf_imports.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "pteron/backends/aoti/shims/private_names.h"
#include "pteron/runtime/platform/guard_pages.h"

namespace pteron::aoti {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "unknown machine"
#endif

// Linkers create fewer than ten. Each address lookup scans all.
constexpr size_t kMaxLoads = 64;
// How many times the string table may be scanned in total.
constexpr uint64_t kMaxTimesShared = 16;

// An unused tag, which loaders skip.
constexpr int64_t kIgnoredTag = 0x60000000;
constexpr uint64_t kPageNbytes = 4096;

Error invalid(const std::string& what) {
  return make_error(Error::InvalidProgram, "the model's code is not a usable shared object: %s",
                    what.c_str());
}

#define SYSTEM_LIBRARIES(words) constexpr std::string_view kSystemLibraries = words;
#define SYSTEM_VERSIONS(words) constexpr std::string_view kSystemVersions = words;
#define SYSTEM_FUNCTIONS(words) constexpr std::string_view kSystemFunctions = words;
#define SYSTEM_MATH(words) constexpr std::string_view kSystemMath = words;
#include "pteron/backends/aoti/shims/system_imports.inc"

bool has_word(std::string_view words, std::string_view word) {
  return words.find(" " + std::string(word) + " ") != words.npos && !word.empty();
}

// Removes `prefix` and `suffix`, if the name has both.
bool remove_ends(std::string_view prefix, std::string_view suffix, std::string_view* name) {
  if (name->size() < prefix.size() + suffix.size() || name->substr(0, prefix.size()) != prefix ||
      name->substr(name->size() - suffix.size()) != suffix) {
    return false;
  }
  *name = name->substr(prefix.size(), name->size() - prefix.size() - suffix.size());
  return true;
}

// Whether a symbol of this name and version may be imported.
bool is_allowed(std::string_view name, std::string_view version) {
  // GLIBCXX_3.4.21: the prefix ends with the last letter or underscore before the first digit.
  const size_t prefix = std::min(version.find_first_of("0123456789"), version.size());
  if (has_word(kSystemVersions, version.substr(0, prefix)) || has_word(kSystemFunctions, name)) {
    return true;
  }
  // Only a runtime that has the sanitizer runs code that was compiled with it.
  if (kAddressSanitizer && name.substr(0, 7) == "__asan_") return true;
  std::string_view base = name;
  if (remove_ends("__", "_chk", &base) || remove_ends("__isoc23_", "", &base) ||
      remove_ends("__isoc99_", "", &base)) {
    return has_word(kSystemFunctions, base);
  }
  (void)remove_ends("__", "_finite", &base);
  return has_word(kSystemMath, base) ||
         ((remove_ends("", "f", &base) || remove_ends("", "l", &base)) &&
          has_word(kSystemMath, base));
}

// The bytes of a file, read at checked offsets and, through the load segments, at checked
// addresses.
class ElfFile {
 public:
  explicit ElfFile(Span<const uint8_t> bytes) : bytes_(bytes) {}

  bool contains(uint64_t offset, uint64_t length) const {
    return offset <= bytes_.size() && length <= bytes_.size() - offset;
  }

  template <typename T>
  bool read(uint64_t offset, T* value) const {
    if (!contains(offset, sizeof(T))) return false;
    std::memcpy(value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  Error read_segments() {
    Elf64_Ehdr header;
    if (!read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
      return invalid("no ELF header");
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_type != ET_DYN) {
      return invalid("not a 64-bit little-endian shared object");
    }
    if (header.e_machine != kMachine) return invalid("made for another processor");
    if (header.e_phentsize != sizeof(Elf64_Phdr)) return invalid("size of its program headers");
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      uint64_t offset = 0;
      if (__builtin_add_overflow(header.e_phoff, i * sizeof(segment), &offset) ||
          !read(offset, &segment)) {
        return invalid("program headers outside the file");
      }
      if (segment.p_type == PT_GNU_STACK) stack_ = segment;
      if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) {
        uint64_t end = 0;
        if (!contains(segment.p_offset, segment.p_filesz) || segment.p_filesz > segment.p_memsz ||
            __builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end)) {
          return invalid("a segment outside the file");
        }
        if (segment.p_type == PT_LOAD) {
          if (loads_.size() == kMaxLoads) return invalid("more load segments than linkers make");
          if ((segment.p_flags & PF_W) && (segment.p_flags & PF_X)) {
            return invalid("memory that is both writable and executable");
          }
          // Otherwise the loader would map one over another, and read other bytes than this.
          if (!loads_.empty() && segment.p_vaddr / kPageNbytes * kPageNbytes <
                                     loads_.back().p_vaddr + loads_.back().p_memsz) {
            return invalid("load segments that overlap");
          }
          loads_.push_back(segment);
        } else if (dynamic_.p_type == PT_DYNAMIC) {
          return invalid("two dynamic segments");
        } else {
          dynamic_ = segment;
        }
      }
    }
    if (loads_.empty() || dynamic_.p_type != PT_DYNAMIC) return invalid("no dynamic segment");
    // The loader reads it at its address.
    uint64_t offset = 0;
    if (!offset_of(dynamic_.p_vaddr, dynamic_.p_filesz, &offset) || offset != dynamic_.p_offset) {
      return invalid("a dynamic segment outside the load segments");
    }
    if (stack_.p_type != PT_GNU_STACK || (stack_.p_flags & PF_X)) {
      return invalid("it asks for an executable stack");
    }
    return Error::Ok;
  }

  uint64_t size() const { return bytes_.size(); }
  const Elf64_Phdr& dynamic() const { return dynamic_; }

  // The file offset of `length` bytes at a virtual address.
  bool offset_of(uint64_t address, uint64_t length, uint64_t* offset) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address < load.p_vaddr) continue;
      const uint64_t into = address - load.p_vaddr;
      if (into > load.p_filesz || length > load.p_filesz - into) continue;
      *offset = load.p_offset + into;
      return true;
    }
    return false;
  }

  template <typename T>
  bool read_address(uint64_t address, T* value) const {
    uint64_t offset = 0;
    return offset_of(address, sizeof(T), &offset) && read(offset, value);
  }

 private:
  Span<const uint8_t> bytes_;
  std::vector<Elf64_Phdr> loads_;
  Elf64_Phdr dynamic_{};
  Elf64_Phdr stack_{};
};

struct DynamicTable {
  uint64_t strings = 0, strings_size = 0;
  uint64_t symbols = 0;
  uint64_t versions = 0;  // of the symbols; 0: they have none
  uint64_t hash = 0, gnu_hash = 0;
  uint64_t version_needs = 0, version_needs_count = 0;
  uint64_t version_definitions = 0, version_definitions_count = 0;
  std::vector<uint64_t> names;      // offsets into the strings: needed libraries, soname, paths
  std::vector<uint64_t> libraries;  // likewise, of needed libraries
  std::vector<uint64_t> run_paths;  // offsets in the file of their entries
  std::vector<uint64_t> symbol_versions;  // by number: offset into the strings, or 0
};

Error read_dynamic(const ElfFile& file, DynamicTable* table) {
  static constexpr struct {
    int64_t tag;
    uint64_t DynamicTable::* field;
  } kFields[] = {{DT_STRTAB, &DynamicTable::strings},
                 {DT_STRSZ, &DynamicTable::strings_size},
                 {DT_SYMTAB, &DynamicTable::symbols},
                 {DT_HASH, &DynamicTable::hash},
                 {DT_GNU_HASH, &DynamicTable::gnu_hash},
                 {DT_VERSYM, &DynamicTable::versions},
                 {DT_VERNEED, &DynamicTable::version_needs},
                 {DT_VERNEEDNUM, &DynamicTable::version_needs_count},
                 {DT_VERDEF, &DynamicTable::version_definitions},
                 {DT_VERDEFNUM, &DynamicTable::version_definitions_count}};
  bool has_end = false;
  const uint64_t count = file.dynamic().p_filesz / sizeof(Elf64_Dyn);
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Dyn entry;
    if (!file.read(file.dynamic().p_offset + i * sizeof(entry), &entry)) break;
    const uint64_t value = entry.d_un.d_val;
    const auto tag = entry.d_tag;
    if (tag == DT_NULL) has_end = true;
    if (tag == DT_NULL) break;
    if (tag == DT_SYMENT && value != sizeof(Elf64_Sym)) return invalid("size of its symbols");
    if (tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH) {
      table->names.push_back(value);
    }
    if (tag == DT_NEEDED) table->libraries.push_back(value);
    if (tag == DT_RPATH || tag == DT_RUNPATH) {
      table->run_paths.push_back(file.dynamic().p_offset + i * sizeof(entry));
    }
    if (tag == DT_TEXTREL || (tag == DT_FLAGS && (value & DF_TEXTREL))) {
      return invalid("text relocations");
    }
    if (tag == DT_AUDIT || tag == DT_DEPAUDIT || tag == DT_AUXILIARY || tag == DT_FILTER) {
      return invalid("a library that it would have opened besides those that it needs");
    }
    for (const auto& known : kFields) {
      if (tag == known.tag) table->*known.field = value;
    }
  }
  if (!has_end || !table->strings || !table->strings_size || !table->symbols) {
    return invalid("no symbols or strings");
  }
  return Error::Ok;
}

// The number of dynamic symbols, which only the hash tables give.
Error count_symbols(const ElfFile& file, const DynamicTable& table, uint64_t* count) {
  if (table.hash) {
    uint32_t chains = 0;
    if (!file.read_address(table.hash + 4, &chains)) return invalid("hash table");
    *count = chains;
    return Error::Ok;
  }
  struct {
    uint32_t buckets, first, bloom, shift;
  } header;
  if (!table.gnu_hash || !file.read_address(table.gnu_hash, &header)) {
    return invalid("no hash table");
  }
  const uint64_t buckets = table.gnu_hash + sizeof(header) + uint64_t{header.bloom} * 8;
  const uint64_t chains = buckets + uint64_t{header.buckets} * 4;
  uint64_t last = 0;
  if (header.buckets > file.size() / 4) return invalid("hash table");
  for (uint64_t i = 0; i < header.buckets; ++i) {
    uint32_t bucket = 0;
    if (!file.read_address(buckets + i * 4, &bucket)) return invalid("hash table");
    last = std::max<uint64_t>(last, bucket);
  }
  if (last < header.first) {  // nothing is defined
    *count = header.first;
    return Error::Ok;
  }
  uint32_t chain = 0;
  do {
    if (last > file.size() / sizeof(Elf64_Sym) ||
        !file.read_address(chains + (last - header.first) * 4, &chain)) {
      return invalid("hash table");
    }
    ++last;
  } while (!(chain & 1));
  *count = last;
  return Error::Ok;
}

// The offsets into the strings that version tables use.
Error read_version_names(const ElfFile& file, DynamicTable* table) {
  // Version tables have at most one name per 8 bytes, unless they overlap.
  const size_t most = table->names.size() + file.size() / 8;
  uint64_t address = table->version_needs;
  for (uint64_t i = 0; i < table->version_needs_count; ++i) {
    Elf64_Verneed need;
    if (!file.read_address(address, &need) || table->names.size() > most) {
      return invalid("needed versions");
    }
    table->names.push_back(need.vn_file);
    uint64_t auxiliary = address + need.vn_aux;
    for (uint64_t k = 0; k < need.vn_cnt; ++k) {
      Elf64_Vernaux version;
      if (!file.read_address(auxiliary, &version) || table->names.size() > most) {
        return invalid("needed versions");
      }
      table->names.push_back(version.vna_name);
      const size_t number = version.vna_other & 0x7fff;
      if (table->symbol_versions.size() <= number) table->symbol_versions.resize(number + 1);
      table->symbol_versions[number] = version.vna_name;
      if (version.vna_next == 0) break;
      auxiliary += version.vna_next;
    }
    if (need.vn_next == 0) break;
    address += need.vn_next;
  }
  address = table->version_definitions;
  for (uint64_t i = 0; i < table->version_definitions_count; ++i) {
    Elf64_Verdef definition;
    if (!file.read_address(address, &definition)) return invalid("defined versions");
    uint64_t auxiliary = address + definition.vd_aux;
    for (uint64_t k = 0; k < definition.vd_cnt; ++k) {
      Elf64_Verdaux version;
      if (!file.read_address(auxiliary, &version) || table->names.size() > most) {
        return invalid("defined versions");
      }
      table->names.push_back(version.vda_name);
      if (version.vda_next == 0) break;
      auxiliary += version.vda_next;
    }
    if (definition.vd_next == 0) break;
    address += definition.vd_next;
  }
  return Error::Ok;
}

}  // namespace

Result<std::vector<std::string>> rename_imports(Span<uint8_t> object) {
  ElfFile file(object);
  PTERON_RETURN_IF_ERROR(file.read_segments());
  DynamicTable table;
  PTERON_RETURN_IF_ERROR(read_dynamic(file, &table));
  uint64_t num_symbols = 0;
  PTERON_RETURN_IF_ERROR(count_symbols(file, table, &num_symbols));
  uint64_t symbols_offset = 0, strings_offset = 0;
  if (num_symbols > object.size() / sizeof(Elf64_Sym) ||
      !file.offset_of(table.symbols, num_symbols * sizeof(Elf64_Sym), &symbols_offset) ||
      !file.offset_of(table.strings, table.strings_size, &strings_offset)) {
    return invalid("symbols or strings outside the file");
  }
  char* const strings = reinterpret_cast<char*>(object.data() + strings_offset);
  const uint64_t strings_size = table.strings_size;
  if (strings[strings_size - 1] != '\0') return invalid("strings without an end");
  PTERON_RETURN_IF_ERROR(read_version_names(file, &table));

  uint64_t versions_offset = 0;
  if (table.versions &&
      !file.offset_of(table.versions, num_symbols * sizeof(Elf64_Half), &versions_offset)) {
    return invalid("versions of symbols outside the file");
  }
  // Such a symbol belongs to the library that defines the version; VER_NDX_GLOBAL: there is none.
  const auto version_of = [&](uint64_t index) {
    Elf64_Half version = VER_NDX_GLOBAL;
    if (table.versions) file.read(versions_offset + index * sizeof(version), &version);
    return std::max<size_t>(version & 0x7fff, VER_NDX_GLOBAL);
  };

  // Names may be suffixes of others, but not arbitrarily often.
  uint64_t left = kMaxTimesShared * strings_size;
  const auto name_at = [&](uint64_t offset) -> Result<std::string_view> {
    if (offset >= strings_size) return invalid("a name outside the strings");
    const size_t length = ::strnlen(strings + offset, left);
    if (length == left) return invalid("names that overlap");
    left -= length;
    return std::string_view(strings + offset, length);
  };

  struct Rename {
    uint64_t begin;
    const RenamedPrefix* prefix;
    bool operator<(const Rename& other) const { return begin < other.begin; }
  };
  std::set<std::string> refused;
  for (const uint64_t offset : table.libraries) {
    PTERON_ASSIGN_OR_RETURN(const std::string_view name, name_at(offset));
    if (!has_word(kSystemLibraries, name)) refused.insert(std::string(name));
  }
  std::vector<Rename> renames;
  std::vector<std::string> imported;
  for (uint64_t i = 1; i < num_symbols; ++i) {
    Elf64_Sym symbol;
    file.read(symbols_offset + i * sizeof(symbol), &symbol);
    PTERON_ASSIGN_OR_RETURN(const std::string_view name, name_at(symbol.st_name));
    const size_t version = version_of(i);
    const RenamedPrefix* prefix = symbol.st_shndx == SHN_UNDEF && version == VER_NDX_GLOBAL
                                      ? find_renamed_prefix(name)
                                      : nullptr;
    if (symbol.st_shndx == SHN_UNDEF && !prefix) {
      std::string_view version_name;
      if (version != VER_NDX_GLOBAL && version < table.symbol_versions.size()) {
        PTERON_ASSIGN_OR_RETURN(version_name, name_at(table.symbol_versions[version]));
      }
      if (!is_allowed(name, version_name)) refused.insert(std::string(name));
    }
    if (prefix) {
      renames.push_back({symbol.st_name, prefix});
      imported.emplace_back(name);
    } else {
      table.names.push_back(symbol.st_name);
    }
  }
  if (!refused.empty()) {
    std::string names;
    for (const std::string& name : refused) names += (names.empty() ? "" : ", ") + name;
    return invalid("it needs what models do not import: " + names);
  }
  std::sort(renames.begin(), renames.end());

  // A string table may use a suffix of one name as another. No other name may start in, or run
  // over, bytes that change.
  for (const uint64_t name : table.names) {
    PTERON_ASSIGN_OR_RETURN(const std::string_view text, name_at(name));
    const uint64_t end = name + text.size();
    auto next = std::lower_bound(renames.begin(), renames.end(), Rename{name, nullptr});
    const bool runs_over = next != renames.end() && next->begin < end;
    const bool begins_inside =
        next != renames.begin() &&
        name < std::prev(next)->begin + std::prev(next)->prefix->imported.size();
    if (runs_over || begins_inside) return invalid("a shim's name is part of another name");
  }
  for (size_t i = 1; i < renames.size(); ++i) {
    const uint64_t distance = renames[i].begin - renames[i - 1].begin;
    if (distance != 0 && distance < renames[i - 1].prefix->imported.size()) {
      return invalid("a shim's name is part of another name");
    }
  }
  for (const uint64_t offset : table.run_paths) {
    std::memcpy(object.data() + offset, &kIgnoredTag, sizeof(kIgnoredTag));
  }
  for (const Rename& rename : renames) {
    std::memcpy(strings + rename.begin, rename.prefix->exported.data(),
                rename.prefix->exported.size());
  }
  std::sort(imported.begin(), imported.end());
  return imported;
}

bool is_mapped_at(Span<const uint8_t> object, uintptr_t base, Span<const Elf64_Phdr> headers) {
  const ElfFile file(object);
  Elf64_Ehdr header;
  const size_t nbytes = headers.size() * sizeof(Elf64_Phdr);
  if (!file.read(0, &header) || header.e_phnum != headers.size() ||
      !file.contains(header.e_phoff, nbytes) ||
      std::memcmp(object.data() + header.e_phoff, headers.data(), nbytes) != 0) {
    return false;
  }
  return std::all_of(headers.begin(), headers.end(), [&](const Elf64_Phdr& segment) {
    return segment.p_type != PT_LOAD || (segment.p_flags & PF_W) ||
           (file.contains(segment.p_offset, segment.p_filesz) &&
            std::memcmp(reinterpret_cast<const void*>(base + segment.p_vaddr),
                        object.data() + segment.p_offset, segment.p_filesz) == 0);
  });
}

}  // namespace pteron::aoti
