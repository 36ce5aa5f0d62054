// In libpteron.so: opens the library of a backend when a program needs it. "FastMathBackend" is
// libfast_math_backend.so, in the folder of libpteron.so.
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <mutex>
#include <string>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// Empty for an id that is no CamelCase name: ids come from files.
std::string library_of(std::string_view id) {
  std::string name = "lib";
  for (size_t i = 0; i < id.size(); ++i) {
    const char c = id[i];
    if (is_upper(c)) {
      if (i) name += '_';
      name += static_cast<char>(c - 'A' + 'a');
    } else if (i && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) {
      name += c;
    } else {
      return "";
    }
  }
  constexpr std::string_view kSuffix = "_backend";
  if (name.size() <= 3 + kSuffix.size()) return "";
  const bool is_backend = std::string_view(name).substr(name.size() - kSuffix.size()) == kSuffix;
  return is_backend ? name + ".so" : "";
}

Error open(std::string_view id) {
  return catch_exceptions([id]() -> Error {
    const std::string library = library_of(id);
    Dl_info own;
    if (library.empty() || !dladdr(reinterpret_cast<void*>(&open), &own)) return Error::Ok;
    // The name by which it was opened may be relative, or a link.
    char absolute[PATH_MAX];
    const char* const target = realpath(own.dli_fname, absolute);
    std::string places[] = {own.dli_fname, target ? target : ""};
    static ForkMutex mutex;
    const std::lock_guard<ForkMutex> lock(mutex);
    for (std::string& place : places) {
      place = place.substr(0, place.rfind('/') + 1) + library;
      if (place[0] != '/' || access(place.c_str(), F_OK) != 0) continue;
      PTERON_CHECK_OR_RETURN(dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL), Error::AccessFailed,
                             "cannot open the library of a backend: %s", dlerror());
      return Error::Ok;
    }
    return make_error(Error::NotFound,
                      "no library of backend %.*s: expected %s. Install the package that has it, "
                      "or lower the model for another backend",
                      static_cast<int>(id.size()), id.data(), places[target ? 1 : 0].c_str());
  });
}

[[maybe_unused]] const bool registered = (set_backend_opener(&open), true);

}  // namespace
}  // namespace pteron
