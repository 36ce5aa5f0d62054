// Floating-point dtypes as C++ types: accumulation types, vectors, and atomic updates of any dtype.
// Used by several families.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<__half> {
  using type = float;
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
};

// Elements of one vector load, 16 bytes by default.
template <typename T, int kCount = 16 / sizeof(T)>
struct alignas(kCount * sizeof(T)) Pack {
  T items[kCount];
};

// body(T{}). InvalidType, prefixed by `what`, for other dtypes.
template <typename Body>
Error with_floating(ScalarType dtype, const char* what, const Body& body) {
  switch (dtype) {
    case ScalarType::Half:
      return body(__half{});
    case ScalarType::BFloat16:
      return body(__nv_bfloat16{});
    case ScalarType::Float:
      return body(float{});
    case ScalarType::Double:
      return body(double{});
    default:
      return make_error(Error::InvalidType,
                        "%s: found %s, expected float16, bfloat16, float32 or float64", what,
                        name_of(dtype));
  }
}

// Atomic *address = change(*address). `change` takes and returns a Wide<T>::type; T has 1, 2, 4 or
// 8 bytes.
template <typename T, typename Change>
__device__ void update(T* address, const Change& change) {
  using Bits = std::conditional_t<sizeof(T) == 8, unsigned long long,
                                  std::conditional_t<sizeof(T) == 2, unsigned short, unsigned>>;
  static_assert(sizeof(T) == 1 || sizeof(T) == sizeof(Bits), "");
  // Updates a byte within its aligned word.
  const auto at = reinterpret_cast<uintptr_t>(address);
  const unsigned first = sizeof(T) == 1 ? static_cast<unsigned>(at % sizeof(Bits)) : 0;
  auto* word = reinterpret_cast<Bits*>(at - first);
  Bits seen = *word;
  while (true) {
    T current;
    memcpy(&current, reinterpret_cast<const char*>(&seen) + first, sizeof current);
    const T next = static_cast<T>(change(static_cast<typename Wide<T>::type>(current)));
    Bits wanted = seen;
    memcpy(reinterpret_cast<char*>(&wanted) + first, &next, sizeof next);
    const Bits before = atomicCAS(word, seen, wanted);
    if (before == seen) return;
    seen = before;
  }
}

}  // namespace pteron::cuda
