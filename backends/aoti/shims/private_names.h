// Names of what compiled models call, as they import them and as this runtime exports them.
//
//   private_name("aoti_torch_get_dim")  ->  "ptrn_torch_get_dim"
//
// A process may hold libtorch, libgomp or a CUDA runtime, with the same names. The undefined
// names of a model's shared object are therefore rewritten in the copy that is loaded
// (runtime/container/elf_imports.h), in place: both names are of one length. The one table of this.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pteron::aoti {

struct RenamedPrefix {
  std::string_view imported;
  std::string_view exported;
  // Whether the prefix counts only before a capital letter ("cuLaunchKernel", not "cupti").
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

// The row that applies to `imported`, or null: the name is not ours and stays as it is.
constexpr const RenamedPrefix* find_renamed_prefix(std::string_view imported) {
  for (const RenamedPrefix& prefix : kRenamedPrefixes) {
    const size_t n = prefix.imported.size();
    if (imported.size() <= n || imported.substr(0, n) != prefix.imported) continue;
    if (prefix.before_capital && !(imported[n] >= 'A' && imported[n] <= 'Z')) continue;
    return &prefix;
  }
  return nullptr;
}

// The name it is exported by; `imported` itself where no row applies.
inline std::string private_name(std::string_view imported) {
  const RenamedPrefix* prefix = find_renamed_prefix(imported);
  if (!prefix) return std::string(imported);
  return std::string(prefix->exported).append(imported.substr(prefix->imported.size()));
}

}  // namespace pteron::aoti
