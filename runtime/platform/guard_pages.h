// Host memory that ends, or begins, at a page that nobody may touch: what reads or writes beside a
// tensor ends the process there. For tests and for the hunt for a fault; slow.
//
//   PTERON_GUARD_PAGES=end runner --model=model.pte        // or begin
//
// Intermediates of models, planned memory (state and outputs are in it) and copies of weights then
// lie at such pages, one block each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pteron {

enum class GuardPages : uint8_t { kNone, kBegin, kEnd };

// What the environment says, read once. Thread-safe.
GuardPages guard_pages();

// Zeroed, aligned to 16; null if there is no memory. Thread-safe, as are all of these.
void* guarded_allocate(size_t nbytes);
// Of what guarded_allocate() gave.
void guarded_free(void* data) noexcept;

}  // namespace pteron
