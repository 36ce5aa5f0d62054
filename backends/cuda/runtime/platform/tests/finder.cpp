// Looks for the toy from within a library, as the CUDA backend does that Python opened.
#include "pteron/backends/cuda/runtime/platform/dynamic_library.h"

// Where the toy was found; 0 if nowhere.
extern "C" int pteron_find_toy() {
  auto library = pteron::cuda::DynamicLibrary::open("libpteron_toy.so");
  if (!library.ok()) return 0;
  auto where = library->symbol("pteron_toy_where");
  return where.ok() ? reinterpret_cast<int (*)()>(*where)() : 0;
}
