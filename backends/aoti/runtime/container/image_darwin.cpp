// Not executed yet: type-checked only (backends/apple/metal/runtime/darwin/tests).
#include "pteron/backends/aoti/runtime/container/image.h"
#include "pteron/backends/aoti/runtime/container/image_file.h"

namespace pteron::aoti {

// The linker wrote private names: a signature forbids changes. The system's loader names what is
// missing.
Result<std::vector<std::string>> make_imports_private(Span<uint8_t>) {
  return std::vector<std::string>();
}

// There are no files in memory.
Result<void*> open_image(const std::string& name, Span<const uint8_t> bytes) {
  std::string path;
  return open_through_file(name, bytes, &path);
}

}  // namespace pteron::aoti
