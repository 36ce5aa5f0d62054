#include "pteron/runtime/platform/sha256.h"

#include <algorithm>
#include <cstring>

namespace pteron {
namespace internal {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(64) const uint32_t kSha256Constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

namespace {

uint32_t rotate(uint32_t value, int bits) { return value >> bits | value << (32 - bits); }

uint32_t load_big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

void sha256_compress_portable(uint32_t* state, const uint8_t* blocks, size_t count) {
  for (; count > 0; --count, blocks += 64) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t) w[t] = load_big_endian(blocks + 4 * t);
    for (int t = 16; t < 64; ++t) {
      const uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
      const uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; ++t) {
      const uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kSha256Constants[t] + w[t];
      const uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
  }
}

namespace {

Sha256Compress best_compress() {
  static const Sha256Compress chosen = [] {
    const Sha256Compress accelerated = sha256_compress_accelerated();
    return accelerated ? accelerated : sha256_compress_portable;
  }();
  return chosen;
}

}  // namespace
}  // namespace internal

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::update(Span<const uint8_t> bytes) {
  const internal::Sha256Compress compress = internal::best_compress();
  const uint8_t* data = bytes.data();
  size_t left = bytes.size();
  size_t filled = nbytes_ % 64;
  nbytes_ += left;
  if (filled > 0) {
    const size_t taken = std::min(left, 64 - filled);
    std::memcpy(block_.data() + filled, data, taken);
    data += taken;
    left -= taken;
    if (filled + taken < 64) return;
    compress(state_.data(), block_.data(), 1);
  }
  compress(state_.data(), data, left / 64);
  data += left / 64 * 64;
  left %= 64;
  if (left > 0) std::memcpy(block_.data(), data, left);
}

Sha256Digest Sha256::finish() {
  const uint64_t nbits = nbytes_ * 8;
  uint8_t padding[72] = {0x80};
  const size_t zeros_to = (119 - nbytes_ % 64) % 64 + 1;  // so that 8 bytes are left in the block
  for (int i = 0; i < 8; ++i) padding[zeros_to + i] = static_cast<uint8_t>(nbits >> (56 - 8 * i));
  update({padding, zeros_to + 8});
  Sha256Digest digest;
  for (size_t i = 0; i < 32; ++i) {
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Sha256Digest sha256(Span<const uint8_t> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(const Sha256Digest& digest) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace pteron
