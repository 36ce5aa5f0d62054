#include "pteron/backends/cpu/runtime/kernels/openblas.h"

#include <dlfcn.h>

#include <string>

#include "cblas.h"
#include "pteron/runtime/platform/fork_mutex.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cpu {

void* openblas() {
  static Once<void*> opened;
  return opened.get([]() -> void* {
    constexpr char kLibrary[] = "libscipy_openblas.so";
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    const auto set_num_threads = library
                                     ? reinterpret_cast<decltype(&scipy_openblas_set_num_threads)>(
                                           dlsym(library, "scipy_openblas_set_num_threads"))
                                     : nullptr;
    if (set_num_threads && dlsym(library, "scipy_cblas_sgemm") &&
        dlsym(library, "scipy_cblas_dgemm")) {
      set_num_threads(1);
      return library;
    }
    const char* const reason = dlerror();
    PTERON_LOG(Warning,
               "GEMM runs without OpenBLAS, many times slower, and linear equations are "
               "not solved: %s. Expected %s in a directory where the dynamic linker looks: see "
               "LD_LIBRARY_PATH",
               reason ? reason : "it lacks functions", kLibrary);
    return nullptr;
  });
}

void* find_openblas_function(const char* name) {
  void* const library = openblas();
  return library ? dlsym(library, (std::string("scipy_") + name).c_str()) : nullptr;
}

}  // namespace pteron::cpu
