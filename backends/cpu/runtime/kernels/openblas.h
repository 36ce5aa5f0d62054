// OpenBLAS, opened on first use: it is ten times as large as the rest of the runtime, and most
// programs never call it.
//
//   const auto getrf = openblas_function<int (*)(int, int, int, float*, int, int*)>("LAPACKE_sgetrf");
//   if (!getrf) return ...;
//
// Thread-safe. OpenBLAS runs single-threaded: we split the work on the threads of compiled code,
// since a second thread pool would compete for cores.
#pragma once

namespace pteron::cpu {

// The handle of dlopen, or null if there is none; logged once.
void* openblas();

// Its function `name`, without the library's prefix; null without the library.
void* find_openblas_function(const char* name);

template <typename Function>
Function openblas_function(const char* name) {
  return reinterpret_cast<Function>(find_openblas_function(name));
}

}  // namespace pteron::cpu
