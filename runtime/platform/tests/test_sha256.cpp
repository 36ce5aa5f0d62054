#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pteron/runtime/platform/sha256.h"

namespace pteron {
namespace {

Span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Vectors of FIPS 180-4's examples.
TEST(Sha256Test, Examples) {
  EXPECT_EQ(to_hex(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(bytes_of(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesGiveTheSameAsTheWhole) {
  std::string text;
  for (size_t length = 0; length < 200; ++length) {
    const Sha256Digest whole = sha256(bytes_of(text));
    for (const size_t piece : {1, 7, 63, 64, 65}) {
      Sha256 hash;
      for (size_t i = 0; i < length; i += piece) hash.update(bytes_of(text.substr(i, piece)));
      EXPECT_EQ(hash.finish(), whole) << length << " bytes, " << piece << " at a time";
    }
    text += static_cast<char>(length * 37);
  }
}

TEST(Sha256Test, AcceleratedEqualsPortable) {
  const internal::Sha256Compress accelerated = internal::sha256_compress_accelerated();
  if (!accelerated) GTEST_SKIP() << "this processor has no SHA instructions";
  std::vector<uint8_t> blocks(64 * 9);
  uint32_t seed = 1;
  for (uint8_t& byte : blocks)
    byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  for (size_t count = 0; count <= 8; ++count) {
    uint32_t expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t found[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    internal::sha256_compress_portable(expected, blocks.data() + 1, count);  // unaligned, too
    accelerated(found, blocks.data() + 1, count);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(found[i], expected[i]) << count << " blocks, word " << i;
  }
}

}  // namespace
}  // namespace pteron
