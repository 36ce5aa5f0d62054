// Accumulation types, and atomic updates of any dtype.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

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
