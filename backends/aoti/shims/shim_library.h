// The shared objects of this process that export shims.
//
//   // In any source file of a library with shims:
//   static const bool registered = register_shim_library(&registered);
//
// A library may have been opened with RTLD_LOCAL (Python extensions always are), but a model's
// shared object finds shims only in the global scope. Registered libraries are promoted to it
// before the first model is opened. Their symbols are private (private_names.h), so this affects
// nothing else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pteron::aoti {

// The newest version of the shim lists that this runtime provides.
inline constexpr uint32_t kShimListVersion = 5;

// `anchor` is any address inside the library. Returns true.
bool register_shim_library(const void* anchor);

// Makes the shims of all registered libraries visible to shared objects that are opened from now
// on.
void promote_shim_libraries();

// The names among `imported` (original names) that no library exports, in order. Call
// promote_shim_libraries() first.
std::vector<std::string> missing_shims(const std::vector<std::string>& imported);

}  // namespace pteron::aoti
