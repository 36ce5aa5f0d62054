// Temporary memory of a kernel call, from the calling thread's cache.
//
//   Scratch<float> packed(rows * cols);      // throws std::bad_alloc
//   packed[i] = ...;
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/caching_allocator.h"

namespace pteron::cpu {

template <typename T>
class Scratch final {
 public:
  explicit Scratch(int64_t count)
      : block_(slim::cached_allocate(static_cast<size_t>(count) * sizeof(T))) {}
  ~Scratch() { slim::cached_free(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(block_.data); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  slim::CachedBlock block_;
};

}  // namespace pteron::cpu
