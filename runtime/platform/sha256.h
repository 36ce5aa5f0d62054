// SHA-256 (FIPS 180-4), with CPU instructions if available.
//
//   Sha256Digest digest = sha256(bytes);
//   std::string text = to_hex(digest);   // 64 characters, lower case
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "pteron/runtime/core/span.h"

namespace pteron {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(Span<const uint8_t> bytes);
std::string to_hex(const Sha256Digest& digest);

// Incremental: update() any number of times, then finish() once.
class Sha256 final {
 public:
  Sha256();
  void update(Span<const uint8_t> bytes);
  Sha256Digest finish();

 private:
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> block_{};
  uint64_t nbytes_ = 0;
};

namespace internal {

// Both add `count` blocks of 64 bytes to `state`; equal results. For tests, and for Sha256.
using Sha256Compress = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);
void sha256_compress_portable(uint32_t* state, const uint8_t* blocks, size_t count);
// Null if this CPU lacks the instructions.
Sha256Compress sha256_compress_accelerated();

extern const uint32_t kSha256Constants[64];

}  // namespace internal
}  // namespace pteron
