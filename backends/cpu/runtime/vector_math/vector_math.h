// How one file defines all the vector math of one register width, over the C library's libmvec.
//
//   #define PTERON_VM_FLOAT(name) ptrn_v##name##f8    // names of this width
//   ...
//   #include "pteron/backends/cpu/runtime/vector_math/width.inc"
//
// Each width is compiled for the instructions it uses, and called only by code compiled for them
// too. libmvec is within 4 units in the last place. What it lacks is computed lane by lane by libm.
#pragma once

#include <immintrin.h>

#include <cmath>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::cpu {

// fn of every lane. `Vector` is a vector of `Lane`.
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
