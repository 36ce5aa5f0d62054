// Maps symbols that compiled models import to the private names under which this runtime exports
// them.
//
//   private_name("aoti_torch_get_dim")  ->  "ptrn_torch_get_dim"
//
// The process may have libtorch, libgomp or a CUDA runtime with the same symbols. The undefined
// symbols of a model's shared object are therefore renamed in the copy that is loaded
// (runtime/container/elf_imports.h), in place: both names have the same length. This is the only
// table of names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pteron::aoti {

struct RenamedPrefix {
  std::string_view imported;
  std::string_view exported;
  // Whether the prefix matches only before a capital letter ("cuLaunchKernel", not "cupti").
  bool before_capital;
};

inline constexpr RenamedPrefix kRenamedPrefixes[] = {
    {"aoti_torch_", "ptrn_torch_", false},
    {"Sleef_", "ptrn_v", false},
    {"GOMP_", "ptrn_", false},
    {"omp_", "ptrn", false},
    {"cuda", "ptrn", true},
    {"cu", "pt", true},
};

constexpr bool renamed_prefixes_keep_their_length() {
  for (const RenamedPrefix& prefix : kRenamedPrefixes) {
    if (prefix.imported.size() != prefix.exported.size()) return false;
  }
  return true;
}
static_assert(renamed_prefixes_keep_their_length());

// The row that matches `imported`, or null: the symbol keeps its name.
constexpr const RenamedPrefix* find_renamed_prefix(std::string_view imported) {
  for (const RenamedPrefix& prefix : kRenamedPrefixes) {
    const size_t n = prefix.imported.size();
    if (imported.size() <= n || imported.substr(0, n) != prefix.imported) continue;
    if (prefix.before_capital && !(imported[n] >= 'A' && imported[n] <= 'Z')) continue;
    return &prefix;
  }
  return nullptr;
}

// Its exported name; `imported` itself if no row matches.
inline std::string private_name(std::string_view imported) {
  const RenamedPrefix* prefix = find_renamed_prefix(imported);
  if (!prefix) return std::string(imported);
  return std::string(prefix->exported).append(imported.substr(prefix->imported.size()));
}

}  // namespace pteron::aoti
