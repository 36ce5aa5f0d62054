// Proves that reading a FlatBuffers root stays inside its bytes and costs what its size explains. It
// says nothing about meaning.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flatbuffers/flatbuffers.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/program_reader/structure_limits.h"

namespace pteron {

// `bytes` begins at a multiple of 16 and has fewer than 2^31 - 1 bytes.
template <typename Root>
bool verify_flatbuffer(Span<const uint8_t> bytes, const char* identifier) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 64;
  // A table and the reference to it need eight bytes at least.
  options.max_tables = static_cast<flatbuffers::uoffset_t>(
      std::clamp<size_t>(bytes.size() / 8, 1 << 16, kMaxTables));
  options.check_alignment = true;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), options);
  return verifier.VerifyBuffer<Root>(identifier) &&
         is_within_limits(*flatbuffers::GetRoot<Root>(bytes.data()), bytes.size());
}

// The verifier asks that a vector's length is aligned, and not that wider items are. Ask before
// reading items of eight bytes. True for null.
template <typename T>
bool is_aligned(const flatbuffers::Vector<T>* vector) {
  return !vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(T) == 0;
}

}  // namespace pteron
