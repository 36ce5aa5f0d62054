// Denormal mode of the calling thread: exact and slow (the C++ default), or flushed to zero.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace pteron::cpu::openmp {

#if defined(__x86_64__)
namespace internal {
inline constexpr unsigned kFlush = 0x8040;  // results (FTZ) and operands (DAZ)
}

inline bool flushes_denormals() { return (_mm_getcsr() & internal::kFlush) == internal::kFlush; }

inline void set_flush_denormals(bool flush) {
  if (flushes_denormals() == flush) return;
  _mm_setcsr(flush ? _mm_getcsr() | internal::kFlush : _mm_getcsr() & ~internal::kFlush);
}
#else
inline bool flushes_denormals() { return false; }
inline void set_flush_denormals(bool) {}
#endif

}  // namespace pteron::cpu::openmp
