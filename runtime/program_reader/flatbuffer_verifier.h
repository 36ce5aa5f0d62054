// Verifies that reading a FlatBuffers root stays within its bytes and has a cost bounded by its
// size. Does not check semantics.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flatbuffers/flatbuffers.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/program_reader/structure_limits.h"

namespace pteron {

// `bytes` is aligned to 16 and shorter than 2^31 - 1.
template <typename Root>
bool verify_flatbuffer(Span<const uint8_t> bytes, const char* identifier) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 64;
  // A table and the reference to it take at least eight bytes.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(
      std::clamp<size_t>(bytes.size() / 8, 1 << 16, kMaxTables));
  options.check_alignment = true;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options);
  return verifier.VerifyBuffer<Root>(identifier) &&
         is_within_limits(*flatbuffers::GetRoot<Root>(bytes.data()), bytes.size());
}

// The verifier checks the alignment of a vector's length, but not of wider elements. Call before
// reading elements of eight bytes. True for null.
template <typename T>
bool is_aligned(const flatbuffers::Vector<T>* vector) {
  return !vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) == 0;
}

}  // namespace pteron
