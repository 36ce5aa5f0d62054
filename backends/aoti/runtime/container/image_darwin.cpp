// Never executed: type-checked only (backends/apple/metal/runtime/darwin/tests).
#include "pteron/backends/aoti/runtime/container/image.h"
#include "pteron/backends/aoti/runtime/container/image_file.h"

namespace pteron::aoti {

// The linker wrote the private names, since the file is signed. The dynamic loader reports missing
// symbols.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t>) {
  return std::vector<std::string>();
}

// macOS has no memfd.
Result<void*> open_image(const std::string& name, Span<const uint8_t> bytes) {
  std::string path;
  return open_through_file(name, bytes, &path);
}

}  // namespace pteron::aoti
