// Macros to define the vector math of one register width with glibc's libmvec.
//
//   #define PTERON_VM_FLOAT(name) ptrn_v##name##f8    // names of this width
//   ...
//   #include "pteron/backends/cpu/runtime/vector_math/width.inc"
//
// Each width is compiled for the instructions it uses, and called only by code compiled for them
// too. libmvec is within 4 ULP. Functions it lacks call libm per lane.
#pragma once

#include <immintrin.h>

#include <cmath>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::cpu {

// Applies fn to every lane. `Vector` is a vector of `Lane`.
template <typename Lane, typename Vector, typename Function>
inline Vector by_lane(Function&& fn, Vector a) {
  constexpr int kLanes = sizeof(Vector) / sizeof(Lane);
  alignas(Vector) Lane x[kLanes];
  __builtin_memcpy(x, &a, sizeof(a));
  for (int i = 0; i < kLanes; ++i) x[i] = fn(x[i]);
  __builtin_memcpy(&a, x, sizeof(a));
  return a;
}

template <typename Lane, typename Vector, typename Function>
inline Vector by_lane(Function&& fn, Vector a, Vector b) {
  constexpr int kLanes = sizeof(Vector) / sizeof(Lane);
  alignas(Vector) Lane x[kLanes];
  alignas(Vector) Lane y[kLanes];
  __builtin_memcpy(x, &a, sizeof(a));
  __builtin_memcpy(y, &b, sizeof(b));
  for (int i = 0; i < kLanes; ++i) x[i] = fn(x[i], y[i]);
  __builtin_memcpy(&a, x, sizeof(a));
  return a;
}

}  // namespace pteron::cpu
