// A model's shared object: whatever its bytes are, renaming its imports ends in an error that leaves
// them, or has removed what it removes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "pteron/backends/aoti/runtime/container/elf_imports.h"
#include "pteron/backends/aoti/shims/private_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pteron;
  const auto require = [](bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
  };
  std::vector<uint8_t> object(data, data + size);
  object.shrink_to_fit();
  const auto imported = aoti::rename_imports(object);
  if (!imported.ok()) {
    require(!imported.error().message().empty(), "an error without a message");
    require(size == 0 || std::memcmp(object.data(), data, size) == 0, "half-done work");
    return 0;
  }
  for (const std::string& name : *imported) {
    require(aoti::private_name(name) != name, "a name that stays was counted");
  }
  // Their new names are none that a model may import.
  const bool again = aoti::rename_imports(object).ok();
  require(again == imported->empty(), "names were not replaced");
  return 0;
}
