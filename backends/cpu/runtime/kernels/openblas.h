// OpenBLAS, opened when something first needs it: it is ten times as large as the rest of the
// runtime, and most programs never call it.
//
//   const auto getrf = openblas_function<int (*)(int, int, int, float*, int, int*)>("LAPACKE_sgetrf");
//   if (!getrf) return ...;
//
// Thread-safe. One thread a call: we split the work ourselves, on the threads that compiled code
// uses. A second pool would fight with that one for the cores.
#pragma once

namespace pteron::cpu {

// The handle of dlopen, or null where there is none; said once in the log.
void* openblas();

// Its function `name`, without the library's prefix; null without the library.
void* find_openblas_function(const char* name);

template <typename Function>
Function openblas_function(const char* name) {
  return reinterpret_cast<Function>(find_openblas_function(name));
}

}  // namespace pteron::cpu
