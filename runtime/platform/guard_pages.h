// Host memory next to an inaccessible page: an out-of-bounds access ends the process. For tests and
// debugging; slow.
//
//   PTERON_GUARD_PAGES=end runner --model=model.pte        // or begin
//
// Applies to intermediates of models, planned memory (with state and outputs) and copies of
// weights, one block each. With AddressSanitizer each is a block of malloc's, guarded on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pteron {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

enum class GuardPages : uint8_t { kNone, kBegin, kEnd };

// The environment's setting, read once. Thread-safe.
GuardPages guard_pages();

// Zeroed, aligned to 16; null if there is no memory. Thread-safe, as are all of these.
void* guarded_allocate(size_t nbytes);
// Frees memory of guarded_allocate().
void guarded_free(void* data) noexcept;

}  // namespace pteron
